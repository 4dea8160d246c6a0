// Package servers starts Redis, PostgreSQL and PgBouncer servers for tests. Each server has a
// temporary directory and a free loopback port. The package never uses a server that
// runs already. A test can start its own server:
//
//	redis := servers.Redis(t)
//	client := goredis.NewClient(&goredis.Options{Addr: redis.Addr()})
//
// If a start takes too long for each test, the tests of a package can share a server:
//
//	var shared servers.Shared
//
//	func TestMain(m *testing.M) { os.Exit(shared.Main(m, servers.PostgresPrograms)) }
//
//	func TestStore(t *testing.T) { dsn := shared.Postgres(t).DSN() ... }
//
// A test can stop, kill and pause a server, and start it again with the same data and port; see
// [Process]. The package ends all servers after the test or the package, by their process ids. On
// Linux they also end if the test binary dies.
//
// If a program is missing, the test is skipped with a line that names the package to install. If
// SLUICE_REQUIRE_SERVERS is set, the test fails instead.
package servers
