// Package servers starts throw-away Redis, Postgres and PgBouncer servers for
// tests: in a temporary directory, on a free loopback port and a unix socket,
// never one that happens to run. A test gets its own
//
//	redis := servers.Redis(t)
//	client := goredis.NewClient(&goredis.Options{Addr: redis.Addr()})
//
// or, when starting takes long beside the test, one that its package shares:
//
//	var shared servers.Shared
//
//	func TestMain(m *testing.M) { os.Exit(shared.Main(m, servers.PostgresPrograms)) }
//
//	func TestStore(t *testing.T) { dsn := shared.Postgres(t).DSN() ... }
//
// Every server can be stopped, killed, frozen and started again on the same
// data and port; see [Process]. All are ended, by their process ids, when the
// test or package is over, and on Linux also when the test binary dies.
//
// Where a program is missing the test is skipped, with a line that names the
// package to install; it fails instead if SLUICE_REQUIRE_SERVERS is set.
package servers
