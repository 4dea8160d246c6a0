package arrows

// An arrow lets the packages from import the packages to. Both are lists of
// import paths parted by spaces, those of this module without its prefix, and "." for its
// root. A path that ends in /... stands for a package and all below it. The standard
// library is open to everyone, all but package testing: what users build does not
// link it.
type arrow struct{ from, to string }

const (
	algorithms = "fixedwindow movingwindow tokenbucket gcra"
	stores     = "storage storage/driver storage/memory storage/sqlite storage/postgres storage/redis"
	testKits   = "internal/structured algo/algotest storage/storagetest internal/engine internal/engine/enginetest internal/memstore internal/servers internal/faultproxy internal/ordeal internal/trace/tracetest"
	command    = "cmd/sluice/internal"
	programs   = command + "/accesslog " + command + "/jsontext " + command + "/replay " + command + "/sample " + command + "/config " + command + "/serve"

	pgx    = "github.com/jackc/pgx/v5/..."
	redis  = "github.com/redis/go-redis/v9/..."
	sqlite = "github.com/mattn/go-sqlite3"
	plot   = "gonum.org/v1/plot/..."
)

// arrows is for code that users build. The first arrow that names a package is
// all that the package may import.
var arrows = []arrow{
	{"algo", ""},
	{algorithms, "algo internal/u128 internal/tally"},
	{"algo/algotest", "algo internal/u128 testing"},
	{"internal/u128", ""},
	{"internal/errtext", ""},
	{"internal/tally", "algo"},
	{"internal/pause", "algo"},
	{"internal/proxies", ""},
	{"internal/structured/...", ""},
	{"internal/earlyreply", ""},
	{"internal/noquota", "algo"},

	{"storage", ""},
	{"storage/driver", "algo storage"}, // algo for the type of a program alone
	{"storage/storagetest", "algo storage storage/driver testing " + algorithms},
	{"storage/memory", "storage storage/driver internal/memstore"},
	{"internal/memstore", "storage storage/driver"},
	{"storage/sqlite", "storage storage/driver " + sqlite},
	{"storage/postgres", "algo storage storage/driver internal/program " + pgx},
	{"storage/redis", "algo storage storage/driver internal/program " + redis},

	{"internal/program", "algo " + algorithms},

	{"internal/breaker", ""},
	{"internal/engine", "algo storage storage/driver internal/breaker"},
	{"internal/engine/enginetest", "internal/engine storage storage/driver"},

	{".", "algo compose storage"}, // package sluice
	{"compose", "algo storage storage/driver storage/memory internal/engine internal/memstore internal/pause " + algorithms},
	{"httplimit", "algo compose storage internal/earlyreply internal/noquota internal/pause internal/proxies internal/structured"},
	{"observe", "algo compose storage storage/memory github.com/prometheus/client_golang/..."},

	{command + "/jsontext", ""},
	{command + "/accesslog", command + "/jsontext github.com/tidwall/gjson"},
	{command + "/replay", "algo compose storage/memory"},
	{command + "/sample/...", ""},
	{command + "/compare", "algo compose " + command + "/accesslog " + command + "/sample " + plot},
	{command + "/config", "algo compose httplimit internal/errtext internal/proxies github.com/goccy/go-yaml/..."},
	{command + "/serve", "algo compose httplimit observe internal/earlyreply internal/noquota internal/proxies " + command + "/config " + command + "/jsontext " +
		algorithms + " " + stores + " " + pgx + " " + redis + " " + sqlite + " github.com/prometheus/client_golang/..."},
	{command + "/frontdoor", ""},
	{"cmd/sluice", "algo compose httplimit internal/proxies internal/trace " + programs + " " + algorithms + " " + plot +
		" github.com/spf13/cobra github.com/spf13/pflag github.com/schollz/progressbar/v3 golang.org/x/term"},

	// What a user could write: nothing of internal/.
	{"examples/...", ". algo compose httplimit " + algorithms + " " + stores + " " + pgx + " " + redis + " " + sqlite},

	{"internal/trace", "algo compose"},
	{"internal/trace/tracetest", "internal/trace testing"},

	{"internal/servers internal/faultproxy", "testing"},
	{"internal/ordeal", "algo compose gcra storage internal/faultproxy testing"},
	{"internal/arrows internal/readme", ""},
	{"internal/fleet/... scripts", ""},
}

// testArrows is for files that end in _test.go, which may import these beside
// what their package may. Here too the first arrow that names a package counts.
var testArrows = []arrow{
	// The algorithms stay pure in their tests: nothing to start, nothing to wait for.
	{"algo/... internal/u128 " + algorithms, "algo/... compose internal/trace/tracetest internal/u128 " + algorithms + " " + assertions},
	{"...", ". algo/... compose/... storage/... httplimit observe " + algorithms + " " + testKits + " " + programs + " " +
		assertions + " github.com/anishathalye/porcupine " + pgx + " " + redis + " " + sqlite +
		" github.com/prometheus/client_golang/... github.com/dunglas/httpsfv github.com/getkin/kin-openapi/..."},
}

const assertions = "testing/... github.com/stretchr/testify/require github.com/stretchr/testify/assert"
