package endpoint

import (
	"net/http"
	"regexp"
)

// origins are the origins whose web pages may read responses, see RequestOptions.AllowedOrigins.
type origins []*regexp.Regexp

// newOrigins compiles valid options.
func newOrigins(patterns []string) origins {
	var all origins
	for _, pattern := range patterns {
		if compiled, err := regexp.Compile(pattern); err == nil {
			all = append(all, compiled)
		}
	}
	return all
}

func (o origins) allow(origin string) bool {
	for _, pattern := range o {
		if pattern.MatchString(origin) {
			return true
		}
	}
	return false
}

// share sets the headers by which browsers let a page of an allowed origin read the response
// (CORS). It reports whether the request is a preflight, which is answered without authentication,
// as browsers send no credentials with it.
func (c *call) share() (preflight bool) {
	if len(c.h.origins) == 0 { // most servers
		return false
	}
	origin := c.r.Header.Get("Origin")
	if origin == "" || !c.h.origins.allow(origin) {
		return false
	}
	header := c.w.Header()
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Allow-Methods", "POST, GET, OPTIONS, PUT, DELETE, PATCH")
	header.Set("Access-Control-Allow-Headers", "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since")
	header.Set("Access-Control-Expose-Headers", "Date")
	header.Set("Access-Control-Allow-Credentials", "true")
	if c.r.Method == http.MethodOptions {
		c.w.WriteHeader(http.StatusNoContent)
		return true
	}
	return false
}
