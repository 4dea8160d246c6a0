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

// List implements [storage.Lister]. For each page a server reads about max names of its database, so a page can have no keys.
//
// Keys can be missing if a server restarts, fails over or moves slots during the listing, or if a server of a Ring does not
// answer. If the Options.Prefix of another store begins with that of s, List also lists keys of that store.
func (s *Store) List(ctx context.Context, prefix, cursor string, max int) (keys []string, next string, err error) {
	if err := driver.BeginList(ctx, max); err != nil {
		return nil, "", err
	}
	p, err := driver.Detached(ctx, func(ctx context.Context) (page, error) {
		servers, err := s.servers(ctx)
		if err != nil {
			return page{}, err
		}
		return s.scan(ctx, servers, prefix, cursor, max)
	})
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"):
		return nil, "", s.failure(fmt.Errorf("%w; to list keys, the user needs the permission +scan", err))
	case err != nil:
		return nil, "", s.failure(err)
	}
	return p.keys, p.next, p.err
}

// page is a page of a listing. next is the cursor of SCAN, a space and the address of the server.
type page struct {
	keys []string
	next string
	err  error // the cursor is not valid
}

// scan reads a page from one of the servers, of which there is at least one.
func (s *Store) scan(ctx context.Context, servers []server, prefix, cursor string, max int) (p page, err error) {
	number, address, _ := strings.Cut(cmp.Or(cursor, "0 "+servers[0].address), " ")
	scanned, parseErr := strconv.ParseUint(number, 10, 64)
	at := slices.IndexFunc(servers, func(s server) bool { return s.address == address })
	switch {
	case parseErr != nil:
		p.err = fmt.Errorf("redis: invalid cursor %q; pass the next of another call of List", cursor)
		return p, nil
	case at < 0:
		p.err = fmt.Errorf("redis: the server %s has left, so the cursor is invalid; list again from the first page", address)
		return p, nil
	}
	names, scanned, err := servers[at].Scan(ctx, scanned, globEscaper.Replace(s.key(prefix))+"*", int64(max)).Result()
	if err != nil {
		return p, err
	}
	for _, name := range names {
		p.keys = append(p.keys, strings.TrimPrefix(name, s.prefix))
	}
	if scanned == 0 { // it was the last page of this server
		if at++; at == len(servers) {
			return p, nil
		}
	}
	p.next = fmt.Sprint(scanned, " ", servers[at].address)
	return p, nil
}

// globEscaper escapes the special characters of a pattern.
var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// server is a server with records. The address is empty if the client is not a ClusterClient or a Ring.
type server struct {
	redis.Cmdable
	address string
}

// servers returns the servers in the order of their addresses.
func (s *Store) servers(ctx context.Context) (all []server, err error) {
	var mu sync.Mutex
	add := func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, server{c, c.Options().Addr})
		return nil
	}
	switch c := s.client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, add)
	case *redis.Ring:
		err = c.ForEachShard(ctx, add)
	default:
		all = []server{{Cmdable: c}}
	}
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: no server is known", storage.ErrUnavailable)
	}
	slices.SortFunc(all, func(a, b server) int { return cmp.Compare(a.address, b.address) })
	return all, err
}
