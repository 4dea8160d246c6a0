package servers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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
	for _, text := range texts {
		if err != nil || !strings.Contains(reply, text) {
			return false
		}
	}
	return true
}
