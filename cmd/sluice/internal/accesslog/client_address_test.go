package accesslog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClientAndHostOfEachPrefix(t *testing.T) {
	tests := []struct{ prefix, host, ip, user string }{
		{"192.0.2.7 - -", "", "192.0.2.7", ""},
		{"192.0.2.7 - ann lee", "", "192.0.2.7", "ann lee"},
		{"192.0.2.7 - Doe, John", "", "192.0.2.7", "Doe, John"},
		{"192.0.2.7 ident ann", "", "192.0.2.7", "ann"},
		{"192.0.2.7", "", "192.0.2.7", ""},
		{"client.example.com - -", "", "client.example.com", ""},
		{"client.example.com ident -", "", "client.example.com", ""},
		{"client.example.com - ann", "", "client.example.com", "ann"},

		// The server's name with a port.
		{"www.example.com:443 192.0.2.7 - ann", "www.example.com", "192.0.2.7", "ann"},
		{"www.example.com:443 client.example.net - -", "www.example.com", "client.example.net", ""},
		{"www.example.com:443 - - -", "www.example.com", "", ""},
		{"127.0.1.1:80 192.0.2.7 - -", "127.0.1.1", "192.0.2.7", ""},
		{"[2001:db8::1]:443 2001:db8::2 - ann", "2001:db8::1", "2001:db8::2", "ann"},
		{"127.0.1.1:80 client.example.net - -", "127.0.1.1", "client.example.net", ""},

		// The server's name without a port.
		{"www.example.com 192.0.2.7 - -", "www.example.com", "192.0.2.7", ""},
		{"www.example.com 192.0.2.7:5555 - ann lee", "www.example.com", "192.0.2.7", "ann lee"},
		{"www.example.com 2001:db8::2 - ann", "www.example.com", "2001:db8::2", "ann"},
		{"www.example.com 216.292.58.48 - -", "www.example.com", "216.292.58.48", ""},
		{"www.example.com 192.0.2.7", "www.example.com", "192.0.2.7", ""},
		{"www.example.com client.example.net - -", "www.example.com", "client.example.net", ""},
		{"- 192.0.2.7 - -", "", "192.0.2.7", ""},
		{"_ 192.0.2.7 - -", "_", "192.0.2.7", ""},

		// The client's address with a port.
		{"192.0.2.7:5555 - john doe", "", "192.0.2.7", "john doe"},
		{"[2001:db8::2]:5555 - john doe", "", "2001:db8::2", "john doe"},
		{"192.0.2.7:5555 - -", "", "192.0.2.7", ""},
		{"192.0.2.7:5555 - x, 6.6.6.6 - -", "", "192.0.2.7", "x, 6.6.6.6 - -"},

		// A server's name that is an address. Clients choose it with the field Host.
		{"6.6.6.1 192.0.2.7 - -", "", "6.6.6.1", ""},
		{"6.6.6.1:80 192.0.2.7 - -", "6.6.6.1", "192.0.2.7", ""},
		{"192.0.2.7 6.6.6.1 - -", "", "192.0.2.7", ""},
		{"192.0.2.7 www.example.com - ann", "", "192.0.2.7", "ann"},

		// Lists of X-Forwarded-For.
		{"198.51.100.7, 192.0.2.7 - -", "", "192.0.2.7", ""},
		{"198.51.100.7, 192.0.2.7 - ann lee", "", "192.0.2.7", "ann lee"},
		{"198.51.100.7,192.0.2.7 - -", "", "192.0.2.7", ""},
		{"198.51.100.7,  unknown, 192.0.2.7:5555 - -", "", "192.0.2.7", ""},
		{"198.51.100.7, 192.0.2.7", "", "192.0.2.7", ""},
		{"198.51.100.7, - - -", "", "", ""},
		{"www.example.com 198.51.100.7, 192.0.2.7 - ann", "www.example.com", "192.0.2.7", "ann"},
		{"www.example.com forged, 192.0.2.7 - -", "www.example.com", "192.0.2.7", ""},
		{"www.example.com 198.51.100.7,192.0.2.7 - -", "www.example.com", "192.0.2.7", ""},
		{"www.example.com:443 198.51.100.7, 192.0.2.7 - -", "www.example.com", "192.0.2.7", ""},
		{"192.0.2.7 10.0.0.1 - ann", "", "192.0.2.7", "ann"},

		// Lists that a client forged.
		{"6.6.6.6 x, 192.0.2.7 - -", "", "192.0.2.7", ""},
		{"6.6.6.6 8.8.8.8, 192.0.2.7 - -", "", "192.0.2.7", ""},
		{"6.6.6.6 8.8.8.8, 192.0.2.7 -", "", "192.0.2.7", ""},
		{"a b c, 192.0.2.7 - -", "", "192.0.2.7", ""},
		{"a, b c,d e, 192.0.2.7:5555 - Doe, John", "", "192.0.2.7", "Doe, John"},
		{"6.6.6.6:1 x -y, 192.0.2.7 10.0.0.1 - ann", "", "192.0.2.7", "ann"},
		{"www.example.com:443 6.6.6.6 x, 192.0.2.7 - -", "www.example.com", "192.0.2.7", ""},
		{"www.example.com 6.6.6.6 x, 192.0.2.7 - -", "www.example.com", "192.0.2.7", ""},
		{"6.6.6.6 x, - - -", "", "", ""},
		{"198.51.100.7, [2001:db8::1]:5555, 192.0.2.7 - -", "", "192.0.2.7", ""},
		{"a, [b, 192.0.2.7 - -", "", "192.0.2.7", ""},
		{"x [01/Jan/2099:00:00:00 +0000] y, 192.0.2.7 - -", "", "192.0.2.7", ""},
		{`192.0.2.7 - ann [01/Jan/2099:00:00:00 +0000] \" 200`, "", "192.0.2.7", `ann [01/Jan/2099:00:00:00 +0000] \" 200`},
		{"192.0.2.7 - [ann] [", "", "192.0.2.7", "[ann] ["},
		{"6.6.6.6 - -, 192.0.2.7 - -", "", "6.6.6.6", "-, 192.0.2.7 - -"}, // this could also be the name of a user
		{"198.51.100.7, 192.0.2.7 10.0.0.1 - ann", "", "192.0.2.7", "ann"},
		{"www.example.com 192.0.2.7 10.0.0.1 - ann", "www.example.com", "192.0.2.7", "ann"},
	}
	for _, test := range tests {
		e := readLine(t, strings.Replace(goodLine, "192.0.2.7 - ann", test.prefix, 1), Options{Fields: IP | User | Host})
		require.Equal(t, test, struct{ prefix, host, ip, user string }{test.prefix, e.Host, e.IP, e.User})
	}
}

func TestTheOtherAddressesOfAListAreForwarded(t *testing.T) {
	for before, want := range map[string]string{
		"192.0.2.7 -":                                  "",
		"192.0.2.7 10.0.0.1 -":                         "",
		"198.51.100.7, 192.0.2.7 -":                    "198.51.100.7",
		"h:80 6.6.6.6,  198.51.100.7,192.0.2.7:80 -":   "6.6.6.6,  198.51.100.7",
		"h forged, 198.51.100.7, 192.0.2.7 10.0.0.1 -": "forged, 198.51.100.7",
		", ,192.0.2.7 -":                               "",
		"6.6.6.6 x, 198.51.100.7, 10.0.0.1 -":          "6.6.6.6 x, 198.51.100.7",
	} {
		lines := []string{strings.Replace(goodLine, "192.0.2.7 -", before, 1)}
		if strings.HasPrefix(before, "1") {
			lines = append(lines, `{"time":1e9,"ip":"`+strings.TrimSuffix(before, " -")+`"}`)
		}
		for _, line := range lines {
			require.Equal(t, want, readLine(t, line, Options{Fields: Forwarded}).Forwarded, line)
		}
	}
}
