package servers

import (
	"fmt"
	"strconv"
	"testing"
)

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
	for i, node := range c.Nodes {
		if err := node.create(settings); err != nil {
			return err
		}
		if err := c.join(i); err != nil {
			return err
		}
	}
	return waitUntil("the cluster is ready", c.isReady)
}

// join gives the i-th node its slots and connects it to the first node.
func (c *RedisCluster) join(i int) error {
	add := []string{"CLUSTER", "ADDSLOTS"}
	for slot := range slots {
		if c.Owner(slot) == c.Nodes[i] {
			add = append(add, strconv.Itoa(slot))
		}
	}
	// With different epochs the nodes need no election at the start.
	epoch := []string{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)}
	meet := []string{"CLUSTER", "MEET", loopback, strconv.Itoa(c.Nodes[0].port)}
	for _, command := range [][]string{add, epoch, meet} {
		if _, err := c.Nodes[i].Do(command...); err != nil {
			return fmt.Errorf("servers: CLUSTER %s: %w", command[1], err)
		}
	}
	return nil
}

func (c *RedisCluster) isReady() bool {
	for _, node := range c.Nodes {
		if !node.replies("CLUSTER INFO", "cluster_state:ok", fmt.Sprintf("cluster_known_nodes:%d\r", len(c.Nodes))) {
			return false
		}
	}
	return true
}
