package sample

import (
	"fmt"
	"time"
)

const (
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:136.0) Gecko/20100101 Firefox/136.0"
	chrome  = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/134.0.0.0 Safari/537.36"
	safari  = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_3 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.3 Mobile/15E148 Safari/604.1"
)

// people come, look at some pages and go. A page is a handful of requests within a
// second or two: a limit should let that pass.
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

// visit is a number of pages, each read for a while.
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

// page is a page and what the browser needs to show it.
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

// office is twenty people behind one address. Together they look like an attack;
// keyed by user they do not.
func (d *day) office() {
	names := []string{"gil", "hana", "ivo", "jun", "kim", "lou", "mia", "noor", "olga", "pete",
		"quin", "rosa", "sam", "tess", "uma", "vic", "wren", "xeni", "yan", "zoe"}
	for _, name := range names {
		c := &client{ip: "192.0.2.50", user: name, agent: d.oneOf(firefox, chrome)}
		d.visit(c, d.millis(8*60_000, 30*60_000), 5+d.IntN(7))
	}
}

// crawler reads one article after the other, at a steady pace.
func (d *day) crawler() {
	c := &client{ip: "2001:db8:c0de::bad:cafe", agent: "ExampleBot/2.1 (+https://bot.example/about)"}
	for at, n := d.millis(0, 3000), 100; at < length; n++ {
		d.add(request{at: at, client: c, method: "GET", path: fmt.Sprintf("/articles/%d", n)})
		at += d.millis(2_700, 3_300)
	}
}

// script tries passwords. It knows that counters often start anew with the minute:
// it knocks once on the minute, spends the rest of that minute's thirty in its
// last three seconds, and the next thirty in the three seconds after.
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

// scanner asks for what should not be there, one request every two seconds on the
// dot: thirty a minute and never more.
func (d *day) scanner() {
	c := &client{ip: "203.0.113.99", agent: "Mozilla/5.0 zgrab/0.x"}
	for at := 12*time.Minute + 500*time.Millisecond; at < 36*time.Minute; at += 2 * time.Second {
		path := d.oneOf("/.env", "/.git/config", "/wp-login.php", "/admin", "/backup.zip", "/phpinfo.php", "/server-status", "/api/v1/users")
		d.add(request{at: at, client: c, method: "GET", path: path, status: 404, bytes: 153})
	}
}

// monitor asks twice a minute whether the shop is up.
func (d *day) monitor() {
	c := &client{ip: "192.0.2.200", agent: "ExampleUptime/1.0"}
	for at := 7 * time.Second; at < length; at += 30 * time.Second {
		d.add(request{at: at, client: c, method: "HEAD", path: "/health", bytes: 2})
	}
}
