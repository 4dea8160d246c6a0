package servers

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
)

// RedisServer is a redis-server. By default it loses its data at a restart.
type RedisServer struct {
	*Process
	port int
}

// Redis starts a redis-server for one test. Settings are lines of redis.conf, such as
// "appendonly yes".
func Redis(t T, settings ...string) *RedisServer {
	t.Helper()
	return start(t, RedisPrograms, func() (*RedisServer, error) { return newRedis(settings...) })
}

// Addr returns the host and port of the server.
func (s *RedisServer) Addr() string { return address(s.port) }

// Port returns the port of the server.
func (s *RedisServer) Port() int { return s.port }

// Socket returns the path of the Unix socket of the server.
func (s *RedisServer) Socket() string { return filepath.Join(s.dir, "redis.sock") }

// Do sends a command and returns its reply as text. A number is in decimal, and each element of an
// array is on its own line. An error reply is returned as an error.
func (s *RedisServer) Do(args ...string) (string, error) { return do(s.Socket(), args...) }

func newRedis(settings ...string) (*RedisServer, error) {
	return onFreePort(func(port int) (*RedisServer, error) { return newRedisOn(port, "redis-server", settings...) })
}

func newRedisOn(port int, program string, settings ...string) (*RedisServer, error) {
	path, err := find(program)
	if err != nil {
		return nil, err
	}
	dir, err := newDir(nil)
	if err != nil {
		return nil, err
	}
	s := &RedisServer{port: port}
	s.Process = &Process{dir: dir, argv: []string{path, "redis.conf"}, stopSignal: syscall.SIGTERM}
	s.ready = func(int) bool { reply, err := s.Do("PING"); return err == nil && reply == "PONG" }
	if _, err = writeFile(dir, "redis.conf", s.conf(settings), nil); err == nil {
		err = s.firstStart()
	}
	if err != nil {
		s.close()
	}
	return s, err
}

func (s *RedisServer) conf(settings []string) string {
	return fmt.Sprintf("bind %s\nport %d\ndir %s\nunixsocket %s\nsave \"\"\n%s\n",
		loopback, s.port, s.dir, s.Socket(), strings.Join(settings, "\n"))
}

// hasInfo reports whether a section of INFO has all these lines.
func (s *RedisServer) hasInfo(section string, lines ...string) bool {
	text, err := s.Do("INFO", section)
	return err == nil && hasLines(text, lines...)
}

func hasLines(text string, lines ...string) bool {
	for _, line := range lines {
		if !strings.Contains("\r\n"+text, "\r\n"+line+"\r\n") {
			return false
		}
	}
	return true
}
