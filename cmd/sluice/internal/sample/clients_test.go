package sample

// These tests promise that the bundled log is the one that this code generates, and that each line is a
// request from an address that is reserved for documentation (sample_test.go).

import (
	"fmt"
	"time"
)

const (
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:136.0) Gecko/20100101 Firefox/136.0"
	chrome  = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/134.0.0.0 Safari/537.36"
	safari  = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_3 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.3 Mobile/15E148 Safari/604.1"
)

// people adds visitors who view some pages. Each page causes a few requests within a second or two, which
// a limit should allow.
func (d *day) people() {
	for i := range 70 {
		c := &client{ip: fmt.Sprintf("198.51.100.%d", 100+i), agent: d.oneOf(firefox, chrome, safari)}
		if i%5 == 0 {
			c.ip = fmt.Sprintf("2001:db8:%x::%x", 0x20+i, 1+d.IntN(0xffff))
		}
		if i%4 == 1 {
			c.user = []string{"ann", "ben", "cleo", "dara", "emil", "fay"}[i/4%6] + fmt.Sprint(i)
		}
		at := d.millis(0, int(length.Milliseconds()))
		d.visit(c, at, 2+d.IntN(6))
	}
}

// visit adds a number of pages, with pauses for reading.
func (d *day) visit(c *client, at time.Duration, pages int) {
	from := ""
	for range pages {
		path := d.oneOf("/", "/articles", "/search?q=lamp", "/search?q=chair", "/cart", d.article(), d.article(), d.article())
		at = d.page(c, at, path, from)
		if c.user != "" && d.IntN(4) == 0 {
			d.add(request{at: at, client: c, method: "POST", path: "/cart", status: 303, bytes: 120, from: path, took: d.millis(50, 900)})
		}
		from = path
		at += d.millis(6_000, 50_000)
	}
}

func (d *day) article() string { return fmt.Sprintf("/articles/%d", 100+d.IntN(60)) }

// page adds the request of a page and of the files that it needs. It returns the time after them.
func (d *day) page(c *client, at time.Duration, path, from string) time.Duration {
	d.add(request{at: at, client: c, method: "GET", path: path, from: from, took: d.millis(20, 1500)})
	at += d.millis(150, 400)
	parts := []string{"/static/site.css", "/static/site.js", "/static/logo.svg", "/api/basket", "/api/stock?ids=all",
		fmt.Sprintf("/images/%d.webp", 100+d.IntN(200)), fmt.Sprintf("/images/%d.webp", 100+d.IntN(200))}
	for _, part := range parts[:3+d.IntN(len(parts)-2)] {
		status := 200
		if from != "" && d.IntN(3) == 0 {
			status = 304
		}
		d.add(request{at: at, client: c, method: "GET", path: part, status: status, from: path})
		at += d.millis(20, 300)
	}
	return at
}

// office adds twenty people behind one address. A limit by address takes them for an attack, a limit by
// user does not.
func (d *day) office() {
	names := []string{"gil", "hana", "ivo", "jun", "kim", "lou", "mia", "noor", "olga", "pete",
		"quin", "rosa", "sam", "tess", "uma", "vic", "wren", "xeni", "yan", "zoe"}
	for _, name := range names {
		c := &client{ip: "192.0.2.50", user: name, agent: d.oneOf(firefox, chrome)}
		d.visit(c, d.millis(8*60_000, 30*60_000), 5+d.IntN(7))
	}
}

// crawler adds a client that reads one article after the other, at an even rate.
func (d *day) crawler() {
	c := &client{ip: "2001:db8:c0de::bad:cafe", agent: "ExampleBot/2.1 (+https://bot.example/about)"}
	for at, n := d.millis(0, 3000), 100; at < length; n++ {
		d.add(request{at: at, client: c, method: "GET", path: fmt.Sprintf("/articles/%d", n)})
		at += d.millis(2_700, 3_300)
	}
}

// script adds a client that tries passwords. It assumes a limit of 30 for each minute of the clock. It
// sends one request at the beginning of a minute, 29 in the last three seconds of the minute, and 30 in
// the three seconds after them.
func (d *day) script() {
	c := &client{ip: "203.0.113.66", agent: "python-requests/2.32.3"}
	login := func(at time.Duration) {
		d.add(request{at: at, client: c, method: "POST", path: "/login", status: 401, bytes: 89})
	}
	for minute := 4 * time.Minute; minute < length-2*time.Minute; minute += 5 * time.Minute {
		edge := minute + time.Minute
		login(minute)
		for i := range 29 {
			login(edge - 3*time.Second + time.Duration(i)*100*time.Millisecond)
		}
		for i := range 30 {
			login(edge + time.Duration(i)*100*time.Millisecond)
		}
	}
}

// scanner adds a client that requests paths of known vulnerabilities, exactly one every two seconds: 30
// in each minute.
func (d *day) scanner() {
	c := &client{ip: "203.0.113.99", agent: "Mozilla/5.0 zgrab/0.x"}
	for at := 12*time.Minute + 500*time.Millisecond; at < 36*time.Minute; at += 2 * time.Second {
		path := d.oneOf("/.env", "/.git/config", "/wp-login.php", "/admin", "/backup.zip", "/phpinfo.php", "/server-status", "/api/v1/users")
		d.add(request{at: at, client: c, method: "GET", path: path, status: 404, bytes: 153})
	}
}

// monitor adds a health check twice a minute.
func (d *day) monitor() {
	c := &client{ip: "192.0.2.200", agent: "ExampleUptime/1.0"}
	for at := 7 * time.Second; at < length; at += 30 * time.Second {
		d.add(request{at: at, client: c, method: "HEAD", path: "/health", bytes: 2})
	}
}
