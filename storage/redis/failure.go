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

// classify wraps an error of the client. The result says whether nothing was applied, and whether a
// retry can help.
func classify(err error) error {
	var op *net.OpError
	err = withoutArguments(err)
	switch {
	case redis.HasErrorPrefix(err, "CROSSSLOT"):
		return fmt.Errorf("%w: %w", ErrCrossSlot, err)
	case redis.HasErrorPrefix(err, "PARTIAL"):
		return fmt.Errorf("redis: %w: %w", storage.ErrPartialWrite, err)
	case errors.Is(err, redis.ErrClosed), isReply(err) && !isTransient(err):
		return storage.NotApplied(fmt.Errorf("redis: %w", err))
	case isReply(err), errors.Is(err, redis.ErrPoolTimeout), errors.As(err, &op) && op.Op == "dial": // no connection
		return storage.NotApplied(fmt.Errorf("redis: %w: %w", storage.ErrUnavailable, err))
	}
	return fmt.Errorf("redis: %w: %w", storage.ErrUnavailable, err)
}

// argumentsMarker precedes the arguments of a command in the error of a server that does not know it, such as of a
// server without scripts. The arguments contain keys.
const argumentsMarker = "with args beginning with:"

// withoutArguments returns err, or an error reply without the arguments of the command in its text.
func withoutArguments(err error) error {
	if text, _, found := strings.Cut(err.Error(), argumentsMarker); found {
		return replyError(strings.TrimRight(text, ", "))
	}
	return err
}

// failure is classify. If the store is unavailable, it also makes a cluster's client read the slots of the nodes again. By
// itself the client does that only after a redirect, which a dead node does not send.
func (s *Store) failure(err error) error {
	err = classify(err)
	if cluster, ok := s.client.(*redis.ClusterClient); ok && errors.Is(err, storage.ErrUnavailable) {
		cluster.ReloadState(context.Background()) // in the background; the client limits the rate
	}
	return err
}

// commandFailure is failure for a command that may have been sent. A proxy may report an error of
// its own after it has sent the command on.
func (s *Store) commandFailure(ctx context.Context, c *command, err error) error {
	notSent := c.tracker.cancel()
	if notSent {
		err = s.withRefusal(ctx, c.args[firstKey].(string), err)
	}
	if s.proxy && isReply(err) && !isOfServer(err) {
		err = fmt.Errorf("redis: %w: %w", storage.ErrUnavailable, withoutArguments(err))
	} else {
		err = s.failure(err)
	}
	if notSent {
		return storage.NotApplied(err)
	}
	return err
}

// isOfServer reports whether only a server or a script reports this error, and never a proxy.
func isOfServer(err error) bool {
	return isTransient(err) || strings.Contains(err.Error(), "user_script") ||
		hasPrefix(err, "NOSCRIPT", "WRONGTYPE", "NOPERM", "NOAUTH", "WRONGPASS", "CROSSSLOT", "PARTIAL")
}

// isReply reports whether err is an error reply. A script that ends with an error has applied
// nothing, unless the error is PARTIAL.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && !errors.Is(err, redis.Nil)
}

// isTransient reports whether a retry can help: the server may recover, or another server has the key.
func isTransient(err error) bool {
	return hasPrefix(err, "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
		"BUSY", "OOM", "MISCONF", "NOREPLICAS", "max number of clients")
}

// hasPrefix reports whether an error reply begins with one of the prefixes, after an optional "ERR ".
func hasPrefix(err error, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}
