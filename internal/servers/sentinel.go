package servers

import (
	"fmt"
	"strings"
	"time"
)

// A RedisSentinel is a primary, its replica and one sentinel that promotes the
// replica a second or two after the primary has stopped answering.
type RedisSentinel struct {
	Primary, Replica, Sentinel *RedisServer
}

// SentinelName is what a [RedisSentinel] calls its primary.
const SentinelName = "primary"

// Sentinel starts a primary, a replica that is in step with it, and a sentinel
// that knows both. The settings are those of primary and replica.
func Sentinel(t T, settings ...string) *RedisSentinel {
	t.Helper()
	return start(t, SentinelPrograms, func() (*RedisSentinel, error) { return newSentinel(settings) })
}

// Addrs are the addresses of the sentinels.
func (s *RedisSentinel) Addrs() []string { return []string{s.Sentinel.Addr()} }

// PrimaryAddr is the address of the server that the sentinel holds for the
// primary now.
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
	// A quick first copy: no pause to wait for more replicas, no file in between.
	settings = append([]string{"repl-diskless-sync yes", "repl-diskless-sync-delay 0"}, settings...)
	if s.Primary, err = newRedis(settings...); err != nil {
		return s, err
	}
	replicaOf := fmt.Sprintf("replicaof %s %d", loopback, s.Primary.port)
	if s.Replica, err = newRedis(append(settings, replicaOf)...); err != nil {
		return s, err
	}
	// A sentinel looks for replicas every 10 s, so it must find this one at first sight.
	if err = until("the replica is in step", func() bool {
		return s.Replica.info("replication", "master_link_status:up") && s.Primary.info("replication", "connected_slaves:1")
	}); err != nil {
		return s, err
	}
	if s.Sentinel, err = newSentinelFor(s.Primary); err != nil {
		return s, err
	}
	s.hurry()
	return s, until("the sentinel knows the replica", func() bool {
		replicas, err := s.Sentinel.Do("SENTINEL", "REPLICAS", SentinelName)
		return err == nil && strings.Contains(replicas, "\nmaster-link-status\nok\n")
	})
}

// hurry shortens the periods of a sentinel of Redis 7. An older one stays with
// its ping a second, and so takes two to find a server dead: with less it would
// find the living dead between two pings. Nor may the ping be much quicker:
// what a sentinel heard of the replica counts for five pings, and it asks every
// second, so on a busy machine there would be no replica fit to promote.
func (s *RedisSentinel) hurry() {
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

// closeAll ends servers of which some may never have been started.
func closeAll(servers ...*RedisServer) {
	for _, s := range servers {
		if s != nil {
			s.close()
		}
	}
}

// until asks until the answer is yes.
func until(what string, answer func() bool) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if answer() {
			return nil
		}
	}
	return fmt.Errorf("servers: waited %v in vain until %s", patience, what)
}
