package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/storage"
)

// failure makes of an error of the client one that says whether anything was applied,
// and whether trying again can help.
func failure(err error) error {
	switch {
	case redis.HasErrorPrefix(err, "CROSSSLOT"):
		return fmt.Errorf("%w: %w", ErrCrossSlot, err)
	case redis.HasErrorPrefix(err, "TORN"):
		return fmt.Errorf("redis: %w: %w", storage.ErrTorn, err)
	case errors.Is(err, redis.ErrClosed), isReply(err) && !isPassing(err):
		return storage.NotApplied(fmt.Errorf("redis: %w", err))
	case isReply(err), notSent(err):
		return storage.NotApplied(fmt.Errorf("redis: %w: %w", storage.ErrUnavailable, err))
	}
	return fmt.Errorf("redis: %w: %w", storage.ErrUnavailable, err)
}

// failed is failure, and has a cluster's client ask anew which node has which
// slots. By itself the client does so when a node sends it elsewhere, which one
// that is dead does not.
func (s *Store) failed(err error) error {
	err = failure(err)
	if c, ok := s.client.(*redis.ClusterClient); ok && errors.Is(err, storage.ErrUnavailable) {
		c.ReloadState(context.Background()) // in the background of the client, not more often than it likes
	}
	return err
}

// unanswered is failed for a whole command. Where something stands between the client and
// several servers, the error may be its own, though it has sent the command on.
func (s *Store) unanswered(err error) error {
	if s.spread && isReply(err) && !isOfServer(err) {
		return fmt.Errorf("redis: %w: %w", storage.ErrUnavailable, err)
	}
	return s.failed(err)
}

// isOfServer reports whether an error can only be that of a server, or of a script.
func isOfServer(err error) bool {
	return isPassing(err) || strings.Contains(err.Error(), "user_script") ||
		begins(err, "NOSCRIPT", "WRONGTYPE", "NOPERM", "NOAUTH", "WRONGPASS", "CROSSSLOT", "TORN")
}

// isReply reports whether the server itself answered with an error. A script that ends
// with one has applied nothing, nor has the group that the script says it of, unless it
// is TORN.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && !errors.Is(err, redis.Nil)
}

// isPassing reports whether an error is that of a server that may do better soon, or that
// is not the one for the key.
func isPassing(err error) bool {
	return begins(err, "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
		"BUSY", "OOM", "MISCONF", "NOREPLICAS", "max number of clients")
}

// begins reports whether a server's error begins with one of prefixes, be it behind an
// "ERR ".
func begins(err error, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// notSent reports whether there was no connection to send anything on.
func notSent(err error) bool {
	var op *net.OpError
	return errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &op) && op.Op == "dial"
}
