package servers

import (
	"fmt"
	"strconv"
)

const slots = 16384

// RedisCluster is a Redis Cluster of three primaries without replicas. Each primary owns a third of
// the slots, in order.
type RedisCluster struct {
	Nodes [3]*RedisServer
}

// Cluster starts a Redis Cluster. It returns when all nodes report that the cluster is ready.
func Cluster(t T, settings ...string) *RedisCluster {
	t.Helper()
	return start(t, RedisPrograms, func() (*RedisCluster, error) { return newCluster(settings) })
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
func (c *RedisCluster) Owner(slot int) *RedisServer {
	for i, node := range c.Nodes {
		if _, end := c.slotRange(i); slot < end {
			return node
		}
	}
	return nil
}

// slotRange returns the slots of the i-th node. end is excluded.
func (c *RedisCluster) slotRange(i int) (first, end int) {
	return i * slots / len(c.Nodes), (i + 1) * slots / len(c.Nodes)
}

func (c *RedisCluster) close() { closeAll(c.Nodes[:]...) }

func newCluster(settings []string) (c *RedisCluster, err error) {
	c = &RedisCluster{}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	settings = append([]string{"cluster-enabled yes", "cluster-node-timeout 2000"}, settings...)
	for i := range c.Nodes {
		if c.Nodes[i], err = newRedis(settings...); err != nil {
			return c, err
		}
		if err = c.join(i); err != nil {
			return c, err
		}
	}
	return c, waitUntil("the cluster is ready", c.isReady)
}

// join gives the i-th node its slots and connects it to the first node.
func (c *RedisCluster) join(i int) error {
	add := []string{"CLUSTER", "ADDSLOTS"}
	first, end := c.slotRange(i)
	for slot := first; slot < end; slot++ {
		add = append(add, strconv.Itoa(slot))
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
		known := fmt.Sprintf("cluster_known_nodes:%d", len(c.Nodes))
		if text, err := node.Do("CLUSTER", "INFO"); err != nil || !hasLines(text, "cluster_state:ok", known) {
			return false
		}
	}
	return true
}
