package servers

import (
	"fmt"
	"strings"
	"time"
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
func Sentinel(t T, settings ...string) *RedisSentinel {
	t.Helper()
	return start(t, SentinelPrograms, func() (*RedisSentinel, error) { return newSentinel(settings) })
}

// Addrs returns the addresses of the sentinels.
func (s *RedisSentinel) Addrs() []string { return []string{s.Sentinel.Addr()} }

// PrimaryAddr returns the address of the server that the sentinel currently regards as the primary.
func (s *RedisSentinel) PrimaryAddr() (string, error) {
	reply, err := s.Sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelName)
	return strings.Replace(reply, "\n", ":", 1), err
}

func (s *RedisSentinel) close() { closeAll(s.Sentinel, s.Replica, s.Primary) }

func newSentinel(settings []string) (s *RedisSentinel, err error) {
	s = &RedisSentinel{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	// The first synchronization is fast: without a delay for more replicas, and without a file.
	settings = append([]string{"repl-diskless-sync yes", "repl-diskless-sync-delay 0"}, settings...)
	if s.Primary, err = newRedis(settings...); err != nil {
		return s, err
	}
	replicaOf := fmt.Sprintf("replicaof %s %d", loopback, s.Primary.port)
	if s.Replica, err = newRedis(append(settings, replicaOf)...); err != nil {
		return s, err
	}
	// A sentinel searches for replicas every 10 s, so it must find this one the first time.
	if err = waitUntil("the replica is synchronized", func() bool {
		return s.Replica.hasInfo("replication", "master_link_status:up") && s.Primary.hasInfo("replication", "connected_slaves:1")
	}); err != nil {
		return s, err
	}
	if s.Sentinel, err = newSentinelFor(s.Primary); err != nil {
		return s, err
	}
	s.shortenPeriods()
	return s, waitUntil("the sentinel knows the replica", func() bool {
		replicas, err := s.Sentinel.Do("SENTINEL", "REPLICAS", SentinelName)
		return err == nil && strings.Contains(replicas, "\nmaster-link-status\nok\n")
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

func newSentinelFor(primary *RedisServer) (*RedisServer, error) {
	return onFreePort(func(port int) (*RedisServer, error) {
		return newRedisOn(port, "redis-sentinel",
			fmt.Sprintf("sentinel monitor %s %s %d 1", SentinelName, loopback, primary.port),
			"sentinel down-after-milliseconds "+SentinelName+" 2000",
			"sentinel failover-timeout "+SentinelName+" 3000")
	})
}

// closeAll removes servers. Some may be nil.
func closeAll(servers ...*RedisServer) {
	for _, s := range servers {
		if s != nil {
			s.close()
		}
	}
}

// waitUntil waits until condition is true.
func waitUntil(what string, condition func() bool) error {
	for deadline := time.Now().Add(maxWait); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if condition() {
			return nil
		}
	}
	return fmt.Errorf("servers: after %v, it is still not true that %s", maxWait, what)
}
