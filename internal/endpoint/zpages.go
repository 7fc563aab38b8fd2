package endpoint

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The pages for people who look for a fault, as KEP-4827 and KEP-4828 define them.
const (
	statusPage = "/statusz"
	flagsPage  = "/flagz"
)

// componentName is the name of the server on these pages, which is that of kube-apiserver.
const componentName = "apiserver"

// A zpage is one of these pages. Without a request for its kind, it is a text for people.
type zpage struct {
	kind string // of the structured form, in the group config.k8s.io
	text func() string
	// object returns the structured form, whose TypeMeta and metadata are these.
	object func(metav1.TypeMeta, metav1.ObjectMeta) any
}

// zpages returns the pages of the server by their paths.
func (h *Handler) zpages() map[string]zpage {
	pages := map[string]zpage{}
	if !h.opts.NoStatus {
		pages[statusPage] = zpage{"Statusz", h.statusText, h.statusObject}
	}
	if h.opts.Flags != nil {
		pages[flagsPage] = zpage{"Flagz", h.flagsText, h.flagsObject}
	}
	return pages
}

// zpage serves one of these pages. It returns false for other paths.
func (c *call) zpage() bool {
	page, ok := c.h.pages[c.info.Path]
	if !ok {
		return false
	}
	m, text, err := page.negotiate(c.r)
	switch {
	case err != nil:
		c.fail(err)
		return true
	case text:
		c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintf(&c.w, "\n%s %s\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n%s",
			componentName, strings.TrimPrefix(c.info.Path, "/"), page.text())
		return true
	}
	if m.as.Version == "v1alpha1" {
		c.w.Header().Set("Warning", fmt.Sprintf(`299 - "This version of the %s endpoint is deprecated. Please use a newer version."`, strings.ToLower(page.kind)))
	}
	apiVersion := m.as.GroupVersion().String()
	object := page.object(metav1.TypeMeta{Kind: page.kind, APIVersion: apiVersion}, metav1.ObjectMeta{Name: componentName})
	out := c.output(http.StatusOK, m)
	out.contentType = fmt.Sprintf("%s;g=%s;v=%s;as=%s", m.contentType(), m.as.Group, m.as.Version, m.as.Kind)
	out.close(out.typed(object, apiVersion, page.kind))
	return true
}

// negotiate returns the media that the client prefers, or that it is text. The error is 406.
func (p zpage) negotiate(r *http.Request) (m media, text bool, err error) {
	accept := r.Header.Get("Accept")
	if strings.TrimSpace(accept) == "" {
		return media{}, true, nil
	}
	structured := rule{allows: func(e encoding, as *schema.GroupVersionKind) bool {
		return e != asProtobuf && as != nil && as.Group == "config.k8s.io" && as.Kind == p.kind && (as.Version == "v1beta1" || as.Version == "v1alpha1")
	}}
	for _, clause := range goautoneg.ParseAccept(accept) {
		for _, e := range []encoding{asJSON, asYAML} {
			if m, ok := withParameters(e, clause.Params, structured); ok && accepts(clause, mediaTypes[e]) {
				m.pretty = m.pretty || wantsPretty(r)
				return m, false, nil
			}
		}
		if _, ok := withParameters(asJSON, clause.Params, plainMedia()); ok && accepts(clause, "text/plain") {
			return media{}, true, nil
		}
	}
	return media{}, false, notAcceptable("only the following media types are accepted: application/json, application/yaml, text/plain")
}

// statusz is the structured form of /statusz.
type statusz struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata,omitempty"`
	StartTime         metav1.Time `json:"startTime"`
	UptimeSeconds     int64       `json:"uptimeSeconds"`
	GoVersion         string      `json:"goVersion"`
	BinaryVersion     string      `json:"binaryVersion"`
	EmulationVersion  string      `json:"emulationVersion,omitempty"`
	Paths             []string    `json:"paths"`
}

func (h *Handler) statusObject(t metav1.TypeMeta, o metav1.ObjectMeta) any {
	v := &h.opts.Version
	return statusz{TypeMeta: t, ObjectMeta: o, StartTime: metav1.Time{Time: h.began}, UptimeSeconds: int64(time.Since(h.began).Seconds()),
		GoVersion: v.GoVersion, BinaryVersion: strings.TrimPrefix(v.GitVersion, "v"), EmulationVersion: v.EmulationMajor + "." + v.EmulationMinor, Paths: h.debugPaths()}
}

func (h *Handler) statusText() string {
	s := h.statusObject(metav1.TypeMeta{}, metav1.ObjectMeta{}).(statusz)
	return fmt.Sprintf("\nStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\nEmulation version: %s\nPaths: %s\n",
		s.StartTime.Format(time.UnixDate), s.UptimeSeconds/3600, s.UptimeSeconds/60%60, s.UptimeSeconds%60,
		s.GoVersion, s.BinaryVersion, s.EmulationVersion, strings.Join(s.Paths, " "))
}

// debugPaths returns the first elements of the paths of the server that do not belong to the API.
func (h *Handler) debugPaths() []string {
	found := map[string]bool{}
	for _, path := range h.paths() {
		first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		switch first {
		case "", "api", "apis", "openid", "openapi", ".well-known":
		default:
			found["/"+first] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// flagz is the structured form of /flagz.
type flagz struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Flags             map[string]string `json:"flags,omitempty"`
}

func (h *Handler) flagsObject(t metav1.TypeMeta, o metav1.ObjectMeta) any {
	return flagz{TypeMeta: t, ObjectMeta: o, Flags: h.opts.Flags}
}

func (h *Handler) flagsText() string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h.opts.Flags)) {
		fmt.Fprintf(&text, "%s=%s\n", name, h.opts.Flags[name])
	}
	return text.String()
}
