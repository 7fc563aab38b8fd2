package endpoint

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// encoding is the encoding of a body.
type encoding uint8

const (
	asJSON encoding = iota
	asYAML
	asProtobuf
)

const (
	contentTypeJSON     = "application/json"
	contentTypeYAML     = "application/yaml"
	contentTypeProtobuf = "application/vnd.kubernetes.protobuf"
)

// The media types in the order of Kubernetes' preference, and those in which events are streamed.
var (
	mediaTypes   = [...]string{asJSON: contentTypeJSON, asYAML: contentTypeYAML, asProtobuf: contentTypeProtobuf}
	mediaStreams = [...]string{contentTypeJSON + ";stream=watch", contentTypeProtobuf + ";stream=watch"}
)

// media is the requested form of a response.
type media struct {
	encoding encoding
	pretty   bool
	// as is the requested shape: Table, PartialObjectMetadata or PartialObjectMetadataList; zero
	// for the object itself.
	as schema.GroupVersionKind
}

func (m media) contentType() string { return mediaTypes[m.encoding] }

// A rule defines the media that a response can have.
type rule struct {
	// allows reports whether there is a response with this encoding and shape. as is nil if the
	// client requests no shape.
	allows func(e encoding, as *schema.GroupVersionKind) bool
	// versioned reports whether clients may name the version of the meta types (sv=v1).
	versioned bool
}

// plainMedia is the rule for responses without other shapes.
func plainMedia() rule {
	return rule{allows: func(_ encoding, as *schema.GroupVersionKind) bool { return as == nil }}
}

// builtInMedia is the rule for objects of built-in kinds, customMedia for custom resources, which
// have no protobuf encoding.
func builtInMedia() rule {
	return rule{versioned: true, allows: func(e encoding, as *schema.GroupVersionKind) bool {
		return as == nil || transformable(e, *as)
	}}
}

// actionMedia is the rule for results of actions, which have no tables.
func actionMedia() rule {
	return rule{versioned: true, allows: func(e encoding, as *schema.GroupVersionKind) bool {
		return as == nil || as.Kind != "Table" && transformable(e, *as)
	}}
}

func customMedia() rule {
	return rule{versioned: true, allows: func(e encoding, as *schema.GroupVersionKind) bool {
		return as == nil && e != asProtobuf || as != nil && transformable(e, *as)
	}}
}

// aggregatedMedia is the rule for the aggregated discovery document.
func aggregatedMedia() rule {
	return rule{allows: func(_ encoding, as *schema.GroupVersionKind) bool {
		return as != nil && as.Group == "apidiscovery.k8s.io" && as.Kind == "APIGroupDiscoveryList" &&
			(as.Version == "v2" || as.Version == "v2beta1")
	}}
}

func transformable(e encoding, as schema.GroupVersionKind) bool {
	if as.Group != metav1.GroupName || as.Version != "v1" && as.Version != "v1beta1" {
		return false
	}
	switch as.Kind {
	case "Table":
		return e != asProtobuf
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		return true
	}
	return false
}

// objectMedia is the rule for the objects of a request.
func (c *call) objectMedia() rule {
	if c.definition.Custom {
		return customMedia()
	}
	if sub := c.version.Subresource(c.info.Subresource); c.definition.Action != nil || sub != nil && sub.Action != nil {
		return actionMedia()
	}
	return builtInMedia()
}

// negotiate returns the media that the client prefers among those that the rule allows. The error
// is 406.
func negotiate(r *http.Request, allowed rule) (media, error) {
	accept := r.Header.Get("Accept")
	m, ok := media{}, true
	if accept != "" && accept != contentTypeJSON {
		m, ok = parseAccept(accept, allowed)
	}
	if !ok {
		return media{}, notAcceptable("only the following media types are accepted: " + strings.Join(mediaTypes[:], ", "))
	}
	m.pretty = m.pretty || wantsPretty(r)
	return m, nil
}

// parseAccept selects the best clause of an Accept header: by quality, then by position, then by
// the preference of the server.
func parseAccept(accept string, allowed rule) (media, bool) {
	for _, clause := range goautoneg.ParseAccept(accept) {
		for e, mediaType := range mediaTypes {
			if !accepts(clause, mediaType) {
				continue
			}
			if m, ok := withParameters(encoding(e), clause.Params, allowed); ok {
				return m, true
			}
		}
	}
	return media{}, false
}

// accepts reports whether a clause matches a media type.
func accepts(clause goautoneg.Accept, mediaType string) bool {
	kind, subkind, _ := strings.Cut(mediaType, "/")
	if clause.Type == "*" {
		return clause.SubType == "*"
	}
	return clause.Type == kind && (clause.SubType == "*" || clause.SubType == subkind)
}

func withParameters(e encoding, params map[string]string, allowed rule) (media, bool) {
	m := media{encoding: e}
	var as *schema.GroupVersionKind
	for k, v := range params {
		switch k {
		case "as", "g", "v":
			if as == nil {
				as = &m.as
			}
			switch k {
			case "as":
				as.Kind = v
			case "g":
				as.Group = v
			case "v":
				as.Version = v
			}
		case "stream":
			if v != "" && (v != "watch" || e == asYAML) {
				return media{}, false
			}
		case "sv":
			if v != "" && (v != "v1" || !allowed.versioned) {
				return media{}, false
			}
		case "pretty":
			m.pretty = v == "1"
		}
	}
	return m, allowed.allows(e, as)
}

// wantsPretty reports whether the response is indented: because of the parameter, or because the
// user agent is used interactively.
func wantsPretty(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "pretty") {
		if value := r.URL.Query().Get("pretty"); value != "" {
			pretty, _ := strconv.ParseBool(value)
			return pretty
		}
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

// routable checks the Accept header as the router in front of Kubernetes' built-in resources does,
// which ignores parameters. The error is 406.
func routable(r *http.Request, produces []string) error {
	accept := r.Header.Get("Accept")
	if accept == "" || accept == contentTypeJSON {
		return nil
	}
	for clause := range strings.SplitSeq(accept, ",") {
		mediaType, _, _ := strings.Cut(clause, ";")
		mediaType = strings.TrimSpace(mediaType)
		if mediaType == "*/*" || slices.Contains(produces, mediaType) {
			return nil
		}
	}
	return unrouted(http.StatusNotAcceptable, "406: Not Acceptable\n\nAvailable representations: "+strings.Join(produces, ", "))
}
