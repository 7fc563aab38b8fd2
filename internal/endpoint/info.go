package endpoint

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/fields"
)

// Info is the meaning of the method, the path and some parameters of a request. It follows
// k8s.io/apiserver/pkg/endpoints/request.
type Info struct {
	// IsResource reports whether the path is that of a resource. Otherwise the fields from Group on
	// are not set.
	IsResource bool
	Path       string
	// Verb is the verb of the API (get, list, watch, create, update, patch, delete,
	// deletecollection), or the HTTP method in lower case.
	Verb string
	// WatchPrefix reports whether the path is one of the old watch paths (/api/v1/watch/...).
	WatchPrefix bool

	Group       string
	Version     string
	Namespace   string
	Resource    string
	Subresource string
	Name        string
	// NameInPath reports whether Name comes from the path, not from a field selector.
	NameInPath bool
	// Rest reports whether the path continues after the subresource, and Below is the rest of it.
	Rest  bool
	Below string
}

// longRunning reports whether the request is exempt from limits in number and time. Besides
// watches, these are requests that other programs serve.
func (i *Info) longRunning() bool {
	switch i.Subresource {
	case "attach", "exec", "log", "portforward", "proxy":
		return true
	}
	return i.Verb == "watch" || i.Verb == "proxy"
}

func (i *Info) reads() bool {
	switch i.Verb {
	case "get", "list", "watch", "head":
		return true
	}
	return false
}

// ParseInfo returns the Info of a request. It returns an error for a path that ends after /watch.
func ParseInfo(method string, u *url.URL) (Info, error) {
	info := Info{Path: u.Path, Verb: strings.ToLower(method)}
	parts := splitPath(u.Path)
	if len(parts) < 3 || parts[0] != "api" && parts[0] != "apis" {
		return info, nil
	}
	grouped := parts[0] == "apis"
	parts = parts[1:]
	if grouped {
		if len(parts) < 3 {
			return info, nil
		}
		info.Group, parts = parts[0], parts[1:]
	}
	info.IsResource = true
	info.Version, parts = parts[0], parts[1:]

	switch parts[0] {
	case "watch", "proxy":
		if len(parts) < 2 {
			return info, fmt.Errorf("failed to create RequestInfo: unable to determine kind and namespace from url, %v", u)
		}
		info.Verb, info.WatchPrefix, parts = parts[0], parts[0] == "watch", parts[1:]
	default:
		info.Verb = verbOf(method)
	}
	if parts[0] == "namespaces" && len(parts) > 1 {
		info.Namespace = parts[1]
		// A segment after a namespace is a resource in it, or one of its subresources.
		if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		}
	}
	info.Resource = parts[0]
	if len(parts) >= 2 {
		info.Name, info.NameInPath = parts[1], parts[1] != ""
	}
	if len(parts) >= 3 && info.Verb != "proxy" {
		info.Subresource, info.Rest = parts[2], len(parts) > 3
		info.Below = below(parts[3:], u.Path)
	}
	if info.Name == "" {
		info.collectionVerb(u)
	}
	return info, nil
}

// below returns the segments that end a path, with the slashes around them.
func below(segments []string, path string) string {
	rest := strings.Join(segments, "/")
	if rest != "" && !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	if strings.HasSuffix(path, "/") && !strings.HasSuffix(rest, "/") {
		rest += "/"
	}
	return rest
}

func verbOf(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}

// collectionVerb sets the verb of reads and deletions that name no object.
func (i *Info) collectionVerb(u *url.URL) {
	switch i.Verb {
	case "get":
		i.Verb = "list"
		if u.RawQuery == "" {
			return
		}
		query := u.Query()
		if values, ok := query["watch"]; ok && isTrue(values) {
			i.Verb = "watch"
		}
		if selector, err := fields.ParseSelector(query.Get("fieldSelector")); err == nil {
			if name, ok := selector.RequiresExactMatch("metadata.name"); ok && len(content.IsPathSegmentName(name)) == 0 {
				i.Name = name
			}
		}
	case "delete":
		i.Verb = "deletecollection"
	}
}

// isTrue parses a boolean parameter as Kubernetes' conversions do: every value except "false" and
// "0" is true, and so is a parameter without a value.
func isTrue(values []string) bool {
	if len(values) == 0 {
		return false
	}
	switch strings.ToLower(values[0]) {
	case "false", "0":
		return false
	}
	return true
}

func splitPath(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}
