package journal

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Lineage is a [History] that reads the revisions of one key without those of its resource, and
// may have older ones in an archive.
type Lineage interface {
	// Revisions calls take with the entries of a key at revisions up to upTo, newest first, until take
	// returns false. upTo is the revision of an entry of the key, or the newest one of the journal.
	// What take gets instead of an object that cannot be read, such as one whose key of encryption is
	// missing, is the reason.
	Revisions(ctx context.Context, key object.Key, upTo object.Revision, take func(Entry, error) bool) error
}

// An Archive selects the objects whose revisions are kept when they leave the history. The zero
// value keeps none.
type Archive struct {
	// Rules are tried in order, and the first that matches an object applies to it.
	Rules []ArchiveRule
	// Bytes limits the size of the archive. Beyond it, the revisions that are in it for the longest
	// time are removed. Default 1 GiB.
	Bytes int64
}

// DefaultArchiveBytes is the default of Archive.Bytes: 1 GiB.
const DefaultArchiveBytes = 1 << 30

// An ArchiveRule says for how long the revisions of some objects are kept. Its text is
// RESOURCE.GROUP/NAMESPACE=TIME, without group for that of pods, and without namespace for all of
// them, such as deployments.apps/shop=720h; *=24h stands for all objects, and *.apps=24h for those
// of a group.
type ArchiveRule struct {
	// Resource is the resource; its Resource, or both of its fields, may be "*".
	Resource schema.GroupResource
	// Namespace is the namespace of the objects; "" means all, and those that have none.
	Namespace string
	// Keep is the time in the archive; 0 means that the revisions are not kept.
	Keep time.Duration
}

// longestKeep is the limit of ArchiveRule.Keep: about a hundred years.
const longestKeep = 100 * 366 * 24 * time.Hour

// ParseArchiveRule reads the text of a rule.
func ParseArchiveRule(text string) (r ArchiveRule, err error) {
	bad := func(why string) error {
		return fmt.Errorf("%q is not a rule of the archive, such as deployments.apps/shop=720h: %s", text, why)
	}
	objects, keep, ok := strings.Cut(text, "=")
	if !ok {
		return r, bad("it has no time")
	}
	if r.Keep, err = time.ParseDuration(keep); err != nil {
		return r, bad(err.Error())
	}
	resource, namespace, named := strings.Cut(objects, "/")
	r.Namespace = namespace
	r.Resource = schema.ParseGroupResource(resource)
	if resource == "*" {
		r.Resource.Group = "*"
	}
	if named && namespace == "" {
		return r, bad("the namespace after the slash is missing")
	}
	if err := r.Validate(); err != nil {
		return r, bad(err.Error())
	}
	return r, nil
}

// Validate returns an error if the rule matches nothing, or its time is out of range.
func (r ArchiveRule) Validate() error {
	switch {
	case r.Resource.Resource == "":
		return fmt.Errorf("the resource is missing")
	case strings.ContainsAny(r.Resource.Group+r.Resource.Resource, "/= ") || strings.ContainsAny(r.Namespace, "/= "):
		return fmt.Errorf("resources and namespaces are names")
	case strings.ToLower(r.Resource.Resource) != r.Resource.Resource:
		return fmt.Errorf("a resource is the plural of a kind in lower case")
	case r.Keep < 0 || r.Keep > longestKeep:
		return fmt.Errorf("the time must be from 0 to %v", longestKeep)
	}
	return nil
}

// String returns the text of the rule.
func (r ArchiveRule) String() string {
	text := r.Resource.String()
	if r.Resource.Group == "*" {
		text = "*"
	}
	if r.Namespace != "" {
		text += "/" + r.Namespace
	}
	return text + "=" + r.Keep.String()
}

func (r ArchiveRule) matches(key object.Key) bool {
	return (r.Resource.Group == "*" || r.Resource.Group == key.Resource.Group) &&
		(r.Resource.Resource == "*" || r.Resource.Resource == key.Resource.Resource) &&
		(r.Namespace == "" || r.Namespace == key.Namespace)
}

// Keep returns the time for which revisions of an object are kept; 0 if they are not.
func (a *Archive) Keep(key object.Key) time.Duration {
	for _, r := range a.Rules {
		if r.matches(key) {
			return r.Keep
		}
	}
	return 0
}

// Validate returns an error if a rule or the limit is out of range.
func (a *Archive) Validate() error {
	if a.Bytes < 0 {
		return fmt.Errorf("the limit of the archive is %d bytes: it cannot be negative", a.Bytes)
	}
	for _, r := range a.Rules {
		if err := r.Validate(); err != nil {
			return fmt.Errorf("rule %s of the archive: %w", r, err)
		}
	}
	return nil
}
