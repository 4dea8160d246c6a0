package serve

import (
	"go/parser"
	"go/token"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testing/servers"
	"github.com/sluice-go/sluice/storage/postgres"
)

// packageComment returns the comment of a package of the root module.
func packageComment(t *testing.T, dir string) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../../"+dir+"/doc.go", nil, parser.ParseComments)
	require.NoError(t, err)
	return file.Doc.Text()
}

// linesOf returns the indented lines of a comment that begin with a word.
func linesOf(comment, word string) (found []string) {
	for line := range strings.Lines(comment) {
		if text, isCode := strings.CutPrefix(line, "\t"); isCode && strings.HasPrefix(text, word+" ") {
			found = append(found, strings.TrimSpace(text))
		}
	}
	return found
}

const twoRules = `
rules:
  - name: client
    policy: gcra 3/h
    by: header:X-Api-Key
  - name: all
    policy: all(fixedwindow 1000/h; tokenbucket 1000/h)
  - name: slow
    policy: movingwindow 1000/h
`

// testEverything starts a server and uses everything that needs the store.
func testEverything(t *testing.T, store string) {
	t.Helper()
	w := startTestServer(t, twoRules, withUpstream(t, hello), on(store))
	for _, want := range []int{200, 200, 200, 429} {
		require.Equal(t, want, fetch(t, w.proxyURL("/"), "X-Api-Key", "a").StatusCode)
	}
	for op, want := range map[string]int{"allow": 200, "peek": 200, "refund": 200, "charge": 200, "reset": 204} {
		a := w.decide(op, `{"key":"b"}`)
		require.Equal(t, want, a.StatusCode, a.body)
	}
	require.NoError(t, w.Reload(t.Context()))
	w.checkStore(t.Context())
	require.Equal(t, http.StatusOK, fetch(t, w.apiURL("/readyz")).StatusCode)
	for line := range strings.Lines(w.logged.String()) {
		isAboutProxies := strings.Contains(line, "no proxy is trusted")
		require.False(t, !isAboutProxies && (strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR")), line)
	}
}

func TestRedisUserNeedsOnlyTheDocumentedRights(t *testing.T) {
	server := servers.Redis(t)
	acl := linesOf(packageComment(t, "storage/redis"), "ACL")
	require.Len(t, acl, 1)
	_, err := server.Do(strings.Fields(acl[0])...)
	require.NoError(t, err)
	testEverything(t, "redis://limiter:password@"+server.Addr())
}

func TestPostgresRoleNeedsOnlyTheDocumentedRights(t *testing.T) {
	server := servers.Postgres(t)
	owner, err := pgx.Connect(t.Context(), server.DSN())
	require.NoError(t, err)
	defer owner.Close(t.Context())
	_, err = owner.Exec(t.Context(), "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC; CREATE ROLE limiter LOGIN")
	require.NoError(t, err)
	table, err := postgres.New(owner, postgres.Options{})
	require.NoError(t, err)
	require.NoError(t, table.Migrate(t.Context()))
	grants := linesOf(packageComment(t, "storage/postgres"), "GRANT")
	require.Len(t, grants, 3)
	for _, grant := range grants {
		_, err = owner.Exec(t.Context(), grant)
		require.NoError(t, err)
	}
	u, err := url.Parse(server.DSN())
	require.NoError(t, err)
	u.User = url.User("limiter")
	testEverything(t, u.String())
	w := startTestServer(t, twoRules, on(u.String()))
	purger := w.store.Store.(*postgres.Store)
	_, err = purger.Purge(t.Context(), 10)
	require.NoError(t, err)
}
