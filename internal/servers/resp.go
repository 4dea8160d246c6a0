package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// do sends a command over a Unix socket and returns its reply as text.
func do(socket string, args ...string) (string, error) {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, request(args)); err != nil {
		return "", err
	}
	return readReply(bufio.NewReader(conn))
}

func request(args []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", errors.New(rest)
	}
	size, err := strconv.Atoi(rest)
	switch {
	case err != nil || kind != '$' && kind != '*':
		return "", fmt.Errorf("servers: not a reply: %q", line)
	case size < 0:
		return "", nil
	case kind == '$':
		return readBulk(r, size)
	}
	return readArray(r, size)
}

func readBulk(r *bufio.Reader, size int) (string, error) {
	text := make([]byte, size+len("\r\n"))
	_, err := io.ReadFull(r, text)
	return string(text[:size]), err
}

func readArray(r *bufio.Reader, size int) (string, error) {
	elements := make([]string, size)
	for i := range elements {
		var err error
		if elements[i], err = readReply(r); err != nil {
			return "", err
		}
	}
	return strings.Join(elements, "\n"), nil
}
