package servers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisServer is a redis-server. By default it loses its data at a restart.
type RedisServer struct{ Process }

// Redis starts a redis-server for one test. Settings are lines of redis.conf, such as
// "appendonly yes".
func Redis(t testing.TB, settings ...string) *RedisServer {
	t.Helper()
	return start(t, RedisPrograms, new(RedisServer), settings)
}

// Socket returns the path of the Unix socket of the server.
func (s *RedisServer) Socket() string { return filepath.Join(s.dir, "redis.sock") }

func (s *RedisServer) create(settings []string) error {
	return s.createProgram("redis-server", "Ready to accept connections", settings)
}

func (s *RedisServer) createProgram(program, ready string, settings []string) error {
	return s.Process.create(program, ready, func() error {
		s.argv = append(s.argv, "redis.conf")
		return s.writeFile("redis.conf", fmt.Sprintf("bind %s\nport %d\ndir %s\nunixsocket redis.sock\nsave \"\"\n%s\n",
			loopback, s.port, s.dir, strings.Join(settings, "\n")))
	})
}

// Do sends a command and returns its reply as text. A number is in decimal, and each element of an
// array is on its own line. An error reply is returned as an error.
func (s *RedisServer) Do(args ...string) (string, error) {
	client := redis.NewClient(&redis.Options{
		Network: "unix", Addr: s.Socket(), Protocol: 2, DisableIdentity: true, MaxRetries: -1, ReadTimeout: 5 * time.Second,
	})
	defer func() { _ = client.Close() }()
	command := make([]any, len(args))
	for i, arg := range args {
		command[i] = arg
	}
	reply, err := client.Do(context.Background(), command...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", err
	}
	return replyText(reply), nil
}

func replyText(reply any) string {
	switch reply := reply.(type) {
	case nil:
		return ""
	case []any:
		elements := make([]string, len(reply))
		for i, element := range reply {
			elements[i] = replyText(element)
		}
		return strings.Join(elements, "\n")
	default:
		return fmt.Sprint(reply)
	}
}

// replies reports whether the reply to a command contains all these texts.
func (s *RedisServer) replies(command string, texts ...string) bool {
	reply, err := s.Do(strings.Fields(command)...)
	return err == nil && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(reply, text) })
}

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
		"sentinel down-after-milliseconds " + SentinelName + " 1000",
		"sentinel failover-timeout " + SentinelName + " 3000",
	}); err != nil {
		return err
	}
	// The ping period must not be much shorter: a replica is only promoted if it has answered within five
	// ping periods, which can fail on a busy machine.
	const shorter = "SENTINEL DEBUG ping-period 500 info-period 500 publish-period 200 ask-period 200"
	if _, err := s.Sentinel.Do(strings.Fields(shorter)...); err != nil {
		return fmt.Errorf("servers: %s: %w", shorter, err)
	}
	return waitUntil("the sentinel knows the replica", func() bool {
		return s.Sentinel.replies("SENTINEL REPLICAS "+SentinelName, "\nmaster-link-status\nok\n")
	})
}

const slots = 16384

// RedisCluster is a Redis Cluster of three primaries without replicas. Each primary owns a third of
// the slots, in order.
type RedisCluster struct {
	Nodes [3]*RedisServer
}

// Cluster starts a Redis Cluster. It returns when all nodes report that the cluster is ready.
func Cluster(t testing.TB, settings ...string) *RedisCluster {
	t.Helper()
	return start(t, RedisPrograms, new(RedisCluster), settings)
}

// Addrs returns the addresses of the nodes.
func (c *RedisCluster) Addrs() []string {
	var addrs []string
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// Owner returns the node that got a slot at the start.
func (c *RedisCluster) Owner(slot int) *RedisServer { return c.Nodes[slot*len(c.Nodes)/slots] }

func (c *RedisCluster) close() {
	for _, node := range c.Nodes {
		node.close()
	}
}

func (c *RedisCluster) create(settings []string) error {
	c.Nodes = [3]*RedisServer{{}, {}, {}}
	settings = append([]string{"cluster-enabled yes", "cluster-node-timeout 2000"}, settings...)
	first := func(node int) int { return (node*slots + len(c.Nodes) - 1) / len(c.Nodes) } // its first slot
	for i, node := range c.Nodes {
		if err := node.create(settings); err != nil {
			return err
		}
		for _, command := range []string{
			fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", first(i), first(i+1)-1),
			fmt.Sprintf("CLUSTER SET-CONFIG-EPOCH %d", i+1), // with different epochs the nodes need no election
			fmt.Sprintf("CLUSTER MEET %s %d", loopback, c.Nodes[0].port),
		} {
			if _, err := node.Do(strings.Fields(command)...); err != nil {
				return fmt.Errorf("servers: %s: %w", command, err)
			}
		}
	}
	return waitUntil("the cluster is ready", func() bool {
		return !slices.ContainsFunc(c.Nodes[:], func(node *RedisServer) bool {
			return !node.replies("CLUSTER INFO", "cluster_state:ok", fmt.Sprintf("cluster_known_nodes:%d\r", len(c.Nodes)))
		})
	})
}
