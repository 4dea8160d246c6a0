package main

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompareAddressHasThePolicies(t *testing.T) {
	require.Equal(t, "http://127.0.0.1:8090/", pageAddress("127.0.0.1:8090", nil))

	specs := []string{"all(gcra 10/s; gcra 100/m burst=20)", "a&b #+%2F"}
	address := pageAddress("[::1]:8090", specs)
	before, after, _ := strings.Cut(address, "#")
	require.Equal(t, "http://[::1]:8090/", before)
	require.True(t, strings.HasPrefix(after, "p=all(gcra+10/s;+gcra+100/m+burst=20)&p="), after)
	// URLSearchParams of the browser reads ; as a character of the value. url.ParseQuery refuses it.
	read, err := url.ParseQuery(strings.ReplaceAll(after, ";", "%3B"))
	require.NoError(t, err)
	require.Equal(t, specs, read["p"])
}
