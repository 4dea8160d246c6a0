package servers

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
)

// A RedisServer is one redis-server. It keeps nothing over a restart unless its
// settings say so.
type RedisServer struct {
	*Process
	port int
}

// Redis starts a redis-server for one test. Settings are lines of redis.conf,
// such as "appendonly yes".
func Redis(t T, settings ...string) *RedisServer {
	t.Helper()
	return start(t, RedisPrograms, func() (*RedisServer, error) { return newRedis(settings...) })
}

// Addr is the host and port that the server listens on.
func (s *RedisServer) Addr() string { return address(s.port) }

// Port is the port alone.
func (s *RedisServer) Port() int { return s.port }

// Socket is the path of the unix socket that the server listens on.
func (s *RedisServer) Socket() string { return filepath.Join(s.dir, "redis.sock") }

// Do sends one command and returns its reply as text: a string as it is, a
// number in decimal, an array's elements one a line. An error reply is an error.
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
	s.Process = &Process{dir: dir, argv: []string{path, "redis.conf"}, goodbye: syscall.SIGTERM}
	s.ready = func(int) bool { reply, err := s.Do("PING"); return err == nil && reply == "PONG" }
	if _, err = writeFile(dir, "redis.conf", s.conf(settings), nil); err == nil {
		err = s.begin()
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

// info tells whether a section of INFO has all of the lines.
func (s *RedisServer) info(section string, lines ...string) bool {
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
