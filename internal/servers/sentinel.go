package servers

import (
	"fmt"
	"strings"
	"testing"
)

// RedisSentinel is a primary, its replica and one sentinel. The sentinel promotes the replica one or
// two seconds after the primary has stopped responding.
type RedisSentinel struct {
	Primary, Replica, Sentinel *RedisServer
}

// SentinelName is the name of the primary of a [RedisSentinel].
const SentinelName = "primary"

// Sentinel starts a primary, a replica and a sentinel. It returns when the replica is synchronized and
// the sentinel knows it. The settings are those of the primary and the replica.
func Sentinel(t testing.TB, settings ...string) *RedisSentinel {
	t.Helper()
	return start(t, SentinelPrograms, new(RedisSentinel), settings)
}

// PrimaryAddr returns the address of the server that the sentinel currently regards as the primary.
func (s *RedisSentinel) PrimaryAddr() (string, error) {
	reply, err := s.Sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelName)
	return strings.Replace(reply, "\n", ":", 1), err
}

func (s *RedisSentinel) close() {
	s.Sentinel.close()
	s.Replica.close()
	s.Primary.close()
}

func (s *RedisSentinel) create(settings []string) error {
	s.Primary, s.Replica, s.Sentinel = new(RedisServer), new(RedisServer), new(RedisServer)
	// The first synchronization is fast: without a delay for more replicas, and without a file.
	settings = append([]string{"repl-diskless-sync yes", "repl-diskless-sync-delay 0"}, settings...)
	if err := s.Primary.create(settings); err != nil {
		return err
	}
	primary := fmt.Sprintf("%s %d", loopback, s.Primary.port)
	if err := s.Replica.create(append(settings, "replicaof "+primary)); err != nil {
		return err
	}
	// A sentinel searches for replicas every 10 s, so it must find this one the first time.
	if err := waitUntil("the replica is synchronized", func() bool {
		return s.Replica.replies("INFO replication", "master_link_status:up") && s.Primary.replies("INFO replication", "connected_slaves:1")
	}); err != nil {
		return err
	}
	if err := s.Sentinel.createProgram("redis-sentinel", "+monitor master", []string{
		"sentinel monitor " + SentinelName + " " + primary + " 1",
		"sentinel down-after-milliseconds " + SentinelName + " 2000",
		"sentinel failover-timeout " + SentinelName + " 3000",
	}); err != nil {
		return err
	}
	s.shortenPeriods()
	return waitUntil("the sentinel knows the replica", func() bool {
		return s.Sentinel.replies("SENTINEL REPLICAS "+SentinelName, "\nmaster-link-status\nok\n")
	})
}

// shortenPeriods shortens the periods of a sentinel of Redis 7. An older sentinel pings each second, so
// it needs two seconds to detect a dead server. The ping period must not be much shorter: a replica is
// only promoted if it has answered within five ping periods, which can fail on a busy machine.
func (s *RedisSentinel) shortenPeriods() {
	const periods = "ping-period 500 info-period 500 publish-period 200 ask-period 200"
	if _, err := s.Sentinel.Do(strings.Fields("SENTINEL DEBUG " + periods)...); err == nil {
		_, _ = s.Sentinel.Do("SENTINEL", "SET", SentinelName, "down-after-milliseconds", "1000")
	}
}
