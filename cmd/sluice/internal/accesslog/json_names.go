package accesslog

// part is what a member of the object is good for.
type part int

const (
	partTime part = iota
	partIP
	partUser
	partMethod
	partPath
	partHost
	partStatus
	partRequest // METHOD TARGET PROTOCOL in one
	parts
)

// memberNames are the names by which each part is looked for, the best first, in
// lower case. They are those of nginx's and Apache's usual JSON formats, Caddy,
// Traefik, Envoy, the Elastic common schema and Google's load balancer.
var memberNames = [parts][]string{
	partTime: {
		"time", "timestamp", "@timestamp", "ts", "time_local", "time_iso8601", "starttime",
		"start_time", "startutc", "datetime", "date", "msec",
	},
	partIP: {
		"ip", "client_ip", "clientip", "remote_ip", "remote_addr", "remoteaddr",
		"request.client_ip", "request.remote_ip", "clienthost", "client.ip", "source.ip",
		"client.address", "source.address", "remote_host", "remotehost",
		"downstream_remote_address", "httprequest.remoteip", "remoteip", "client", "remote",
	},
	partUser: {
		"user", "username", "user_name", "user_id", "userid", "remote_user", "remoteuser",
		"user.name", "user.id", "clientusername", "client.user.name",
	},
	partMethod: {
		"method", "request_method", "requestmethod", "http_method", "request.method",
		"http.request.method", "httprequest.requestmethod", "verb",
	},
	partPath: {
		"path", "uri", "request_uri", "requesturi", "request_path", "requestpath",
		"request.path", "request.uri", "url", "url.path", "url.original", "target",
		"httprequest.requesturl",
	},
	partHost: {
		"host", "vhost", "http_host", "server_name", "request.host", "requesthost",
		"request_host", "authority", "url.domain",
	},
	partStatus: {
		"status", "status_code", "statuscode", "response_code", "responsecode",
		"http.response.status_code", "response.status", "downstreamstatus",
		"httprequest.status", "code",
	},
	partRequest: {"request", "request_line", "requestline"},
}

// memberName is what a name stands for.
type memberName struct {
	part part
	rank int // from 1; of a part's names the least one that is there counts
}

// namesOfParts is memberNames by the name. A timeField takes the place of the usual
// names of the time, and is nothing else even where it is the name of another part.
func namesOfParts(timeField string) map[string]memberName {
	names := make(map[string]memberName)
	for i, list := range memberNames {
		if part(i) == partTime && timeField != "" {
			continue
		}
		for rank, name := range list {
			names[name] = memberName{part(i), rank + 1}
		}
	}
	if timeField != "" {
		names[lower(timeField)] = memberName{partTime, 1}
	}
	return names
}

// lower is name with its ASCII letters in lower case.
func lower(name string) string {
	b := []byte(name)
	lowerASCII(b)
	return string(b)
}

func lowerASCII(b []byte) {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
}
