package generate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// The beginnings of tags in package comments that ask for a generator.
var tags = map[string]string{
	"deepcopy":   "k8s:deepcopy-gen=",
	"defaulter":  "k8s:defaulter-gen=",
	"conversion": "k8s:conversion-gen=",
	"register":   "groupName",
	"lifecycle":  "k8s:prerelease-lifecycle-gen=",
	"client":     "genclient",
	"validation": "k8s:validation-gen=",
	"openapi":    "k8s:openapi",
	"protobuf":   "k8s:protobuf-gen=package",
}

// A tagged package may have tags of code generators.
type tagged struct {
	listed    *packages.Package
	path, dir string
	tags      map[string]bool
	mentions  []string // packages that tags name: generators will load them
}

// isTagged reports whether a package has a tag of a code generator.
func (t tagged) isTagged() bool { return slices.Contains(slices.Collect(maps.Values(t.tags)), true) }

// mention matches a tag that names a package, or interfaces in packages.
var mention = regexp.MustCompile(`^k8s:(conversion-gen|conversion-gen-external-types|defaulter-gen-input|deepcopy-gen:interfaces)=(\S+)`)

// A tagText is a line of a file with a tag: what follows the plus sign.
type tagText struct {
	number int
	text   []byte
}

// tagLines returns the lines of a file that have a tag.
func tagLines(data []byte) (all []tagText) {
	for number := 1; len(data) > 0; number++ {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		if comment, ok := bytes.CutPrefix(bytes.TrimLeft(line, " \t"), []byte("//")); ok {
			if text, ok := bytes.CutPrefix(bytes.TrimLeft(comment, " \t"), []byte("+")); ok {
				all = append(all, tagText{number, bytes.TrimSuffix(text, []byte("\r"))})
			}
		}
	}
	return all
}

// mentions returns the packages that a tag of a package names.
func mentions(of string, tag []byte) (all []string) {
	if match := mention.FindSubmatch(tag); match != nil {
		for name := range strings.SplitSeq(string(match[2]), ",") {
			if string(match[1]) == "deepcopy-gen:interfaces" {
				name = name[:max(0, strings.LastIndexByte(name, '.'))]
			}
			if strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") {
				name = path.Join(of, name)
			}
			all = append(all, name)
		}
	}
	return all
}

// findTagged returns packages with their tags of code generators, in the order of their
// directories.
func findTagged(ctx context.Context, l goList, paths []string) ([]tagged, error) {
	loaded, err := l.list(ctx, "", paths)
	if err != nil {
		return nil, err
	}
	var all []tagged
	var failed []error
	for _, p := range loaded {
		t := tagged{listed: p, path: p.PkgPath, tags: map[string]bool{}}
		for _, file := range p.GoFiles {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			t.dir = filepath.Dir(file)
			for _, line := range tagLines(data) {
				failed = append(failed, misspelt(file, line)...)
				t.mentions = append(t.mentions, mentions(p.PkgPath, line.text)...)
				for name, tag := range tags {
					t.tags[name] = t.tags[name] || bytes.HasPrefix(line.text, []byte(tag))
				}
			}
		}
		if t.dir == "" || t.isTagged() { // generators do not need others
			for _, err := range p.Errors {
				failed = append(failed, problemOf(err))
			}
		}
		if t.dir != "" {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b tagged) int { return strings.Compare(a.dir, b.dir) })
	return all, errors.Join(unique(failed)...)
}

// knownTags are the tags of the code generators, without their values and what follows a second
// colon.
var knownTags = []string{
	"genclient", "groupGoName", "groupName",
	"k8s:applyconfiguration-gen", "k8s:client-gen", "k8s:conversion-fn", "k8s:conversion-gen", "k8s:conversion-gen-external-types", "k8s:deepcopy-gen",
	"k8s:defaulter-gen", "k8s:defaulter-gen-input", "k8s:informer-gen", "k8s:lister-gen", "k8s:openapi-gen", "k8s:openapi-model-package",
	"k8s:prerelease-lifecycle-gen", "k8s:protobuf-gen", "k8s:register-gen", "k8s:validation-gen", "k8s:validation-gen-input",
	"k8s:validation-gen-scheme-registry", "k8s:validation-gen-test-fixture",
}

// validationTags are those of declarative validation.
var validationTags = strings.Fields(`k8s:alpha k8s:beta k8s:customUnique k8s:customValidation k8s:dependentForbidden k8s:dependentRequired k8s:eachKey k8s:eachVal
	k8s:enum k8s:enumExclude k8s:forbidden k8s:format k8s:ifDisabled k8s:ifEnabled k8s:ifMode k8s:immutable k8s:isSubresource k8s:item k8s:listMapKey
	k8s:listType k8s:maxBytes k8s:maxItems k8s:maxLength k8s:maxProperties k8s:maximum k8s:minItems k8s:minLength k8s:minProperties k8s:minimum
	k8s:modeDiscriminator k8s:monotonic k8s:neq k8s:opaqueType k8s:optional k8s:required k8s:subfield k8s:supportsSubresource k8s:unionDiscriminator
	k8s:unionMember k8s:unique k8s:update k8s:validateError k8s:validateFalse k8s:validateTrue k8s:zeroOrOneOfMember`)

// tagName matches the name of a tag that may be one of these.
var tagName = regexp.MustCompile(`^(?:k8s:)?[a-zA-Z0-9-]+`)

// misspelt returns an error for a tag that is nearly one of the code generators, which ignore it.
// Tags that are like none belong to other programs.
func misspelt(file string, line tagText) (all []error) {
	if name, known := nearTag(line.text, knownTags, validationTags); known != "" {
		message := fmt.Sprintf("unknown tag +%s (did you mean +%s?)", name, known)
		return []error{Problem{At: token.Position{Filename: relative(file), Line: line.number}, Message: message}}
	}
	return nil
}

// nearTag returns the name of a tag, and which of the known names it is nearly: with one wrong
// letter, or two in a long name. known is "" if the tag is one of them or like none.
func nearTag(tag []byte, all ...[]string) (name, known string) {
	name = string(tagName.Find(tag))
	if name == "" {
		return "", ""
	}
	short := strings.TrimPrefix(strings.ToLower(name), "k8s:")
	least := 2
	if len(short) >= 8 {
		least = 3
	}
	for _, names := range all {
		for _, candidate := range names {
			if candidate == name {
				return name, ""
			}
			if strings.HasPrefix(candidate, "k8s:") != strings.HasPrefix(strings.ToLower(name), "k8s:") {
				continue
			}
			if d := distance(short, strings.TrimPrefix(strings.ToLower(candidate), "k8s:")); d < least {
				known, least = candidate, d
			}
		}
	}
	return name, known
}
