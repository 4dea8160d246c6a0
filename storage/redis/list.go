package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/storage"
	"github.com/sluice-go/sluice/storage/driver"
)

// List implements [storage.Lister]. It sends the command SCAN, for which the user of the client needs the permission +scan. The
// server looks at about max names of the database for a page, so a page can have no keys. In a Redis Cluster or a Ring, List reads
// one server after the other. With an empty prefix, it also lists the keys of stores whose Options.Prefix begins with that of s.
func (s *Store) List(ctx context.Context, prefix, cursor string, max int) (keys []string, next string, err error) {
	if err := driver.BeginList(ctx, max); err != nil {
		return nil, "", err
	}
	p, err := driver.Detached(ctx, func(ctx context.Context) (page, error) { return s.scan(ctx, prefix, cursor, max) })
	if err != nil {
		return nil, "", s.failure(err)
	}
	return p.keys, p.next, nil
}

type page struct {
	keys []string
	next string // the cursor of SCAN, a space and the address of the server
}

// scan returns a page.
func (s *Store) scan(ctx context.Context, prefix, cursor string, max int) (p page, err error) {
	servers, addresses, err := s.scannable(ctx)
	if err != nil {
		return p, err
	}
	number, address, _ := strings.Cut(cmp.Or(cursor, "0 "+addresses[0]), " ")
	at, err := strconv.ParseUint(number, 10, 64)
	server := servers[address]
	switch {
	case err != nil:
		return p, fmt.Errorf("invalid cursor %q; pass the next of another call of List", cursor)
	case server == nil:
		return p, fmt.Errorf("the server %s has left, so the next page is unknown; list the keys from the first page", address)
	}
	begin := s.key(prefix)
	names, at, err := server.Scan(ctx, at, globEscaper.Replace(begin)+"*", int64(max)).Result()
	if err != nil {
		return p, err
	}
	for _, name := range names {
		p.keys = append(p.keys, strings.TrimPrefix(name, s.prefix))
	}
	if at == 0 { // it was the last page of this server
		i := slices.Index(addresses, address) + 1
		if i == len(addresses) {
			return p, nil
		}
		address = addresses[i]
	}
	p.next = fmt.Sprint(at, " ", address)
	return p, nil
}

// globEscaper escapes the special characters of a pattern.
var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// scannable returns the servers with records by their addresses, and the addresses in order.
func (s *Store) scannable(ctx context.Context) (servers map[string]redis.Cmdable, addresses []string, err error) {
	servers = map[string]redis.Cmdable{}
	var mu sync.Mutex
	add := func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		address := c.Options().Addr
		servers[address], addresses = c, append(addresses, address)
		return nil
	}
	switch c := s.client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, add)
	case *redis.Ring:
		err = c.ForEachShard(ctx, add)
	default:
		servers[""], addresses = c, []string{""}
	}
	slices.Sort(addresses)
	if err == nil && len(addresses) == 0 {
		err = fmt.Errorf("%w: no server is known", storage.ErrUnavailable)
	}
	return servers, addresses, err
}
