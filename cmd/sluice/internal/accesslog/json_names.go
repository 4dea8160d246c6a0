package accesslog

import "strings"

// part is a part of an entry.
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
	partKey     // of Options.KeyField
	parts
)

// memberNames has the names of the members for each part, the best first, in
// lower case. They are those of nginx's and Apache's usual JSON formats, Caddy,
// Traefik, Envoy, the Elastic common schema and Google's load balancer.
var memberNames = [parts]string{
	partTime: `time timestamp @timestamp ts time_local time_iso8601 starttime start_time startutc datetime date msec`,
	partIP: `ip client_ip clientip remote_ip remote_addr remoteaddr request.client_ip request.remote_ip clienthost
		client.ip source.ip client.address source.address remote_host remotehost downstream_remote_address
		httprequest.remoteip remoteip client remote`,
	partUser: `user username user_name user_id userid remote_user remoteuser user.name user.id clientusername
		client.user.name`,
	partMethod: `method request_method requestmethod http_method request.method http.request.method
		httprequest.requestmethod verb`,
	partPath: `path uri request_uri requesturi request_path requestpath request.path request.uri url url.path
		url.original target httprequest.requesturl`,
	partHost: `host vhost http_host server_name request.host requesthost request_host authority url.domain`,
	partStatus: `status status_code statuscode response_code responsecode http.response.status_code
		response.status downstreamstatus httprequest.status code`,
	partRequest: `request request_line requestline`,
}

// memberName is the part that a name stands for.
type memberName struct {
	part part
	rank int // from 1; of a part's names in an object, the one with the lowest rank counts
}

// partsByName returns memberNames by the name, with the names of the options. A TimeField replaces
// the usual names of the time, and is not the name of another part except the key.
func partsByName(o Options) map[string][]memberName {
	names := make(map[string][]memberName)
	for i, list := range memberNames {
		for rank, name := range strings.Fields(list) {
			if part(i) != partTime || o.TimeField == "" {
				names[name] = append(names[name], memberName{part(i), rank + 1})
			}
		}
	}
	if o.TimeField != "" {
		names[lower(o.TimeField)] = []memberName{{partTime, 1}}
	}
	if o.KeyField != "" {
		names[lower(o.KeyField)] = append(names[lower(o.KeyField)], memberName{partKey, 1})
	}
	return names
}

// lower returns name with its ASCII letters in lower case.
func lower(name string) string { return string(lowerASCII([]byte(name))) }

func lowerASCII(b []byte) []byte {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return b
}
