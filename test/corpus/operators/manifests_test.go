package operators

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A tree is decoded JSON, with integers as int64.
type tree = map[string]any

// A document is one manifest of a module.
type document struct {
	from string // module, file and number within it
	text []byte
}

// documents returns the manifests in the files of a module, as text: YAML, JSON, and YAML in
// Markdown. It detects manifests by their lines, because parsing is slow.
func documents(m module) ([]document, error) {
	var all []document
	err := filepath.WalkDir(m.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var split func([]byte) [][]byte
		switch filepath.Ext(path) {
		case ".yaml", ".yml":
			split = splitYAML
		case ".json":
			split = func(text []byte) [][]byte { return [][]byte{text} }
		case ".md":
			split = quotedYAML
		}
		if split == nil || !entry.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(m.Dir, path)
		if err != nil {
			return err
		}
		for i, part := range split(text) {
			if hasKind.Match(part) && hasVersion.Match(part) {
				all = append(all, document{fmt.Sprintf("%s/%s#%d", m.Path, name, i), part})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", m.Path, err)
	}
	return all, nil
}

var (
	separator  = regexp.MustCompile(`(?m)^---.*\n`)
	fence      = regexp.MustCompile("(?ms)^[ \t]*```ya?ml[^\n]*\n(.*?)^[ \t]*```")
	hasKind    = regexp.MustCompile(`(?m)^(  )*"?kind"?: *"?[A-Z]`)
	hasVersion = regexp.MustCompile(`(?m)^(  )*"?apiVersion"?: *"?[a-z0-9.-]+/?v`)
)

func splitYAML(text []byte) (parts [][]byte) {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	for {
		at := separator.FindIndex(text)
		if at == nil {
			return append(parts, text)
		}
		parts = append(parts, text[:at[0]])
		text = text[at[1]:]
	}
}

func quotedYAML(text []byte) (parts [][]byte) {
	for _, match := range fence.FindAllSubmatch(text, -1) {
		parts = append(parts, splitYAML(match[1])...)
	}
	return parts
}

// A manifest is a document that could be parsed.
type manifest struct {
	from        string
	object      tree
	group       string
	version     string
	kind        string
	fingerprint [sha256.Size]byte // of its content
}

// parse parses a document; nil if it is no manifest, but a template or a list of values.
func parse(d document) *manifest {
	data, err := yaml.YAMLToJSON(d.text)
	if err != nil {
		return nil
	}
	obj := tree{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &obj); err != nil {
		return nil
	}
	m := &manifest{from: d.from, object: obj, fingerprint: sha256.Sum256(data)}
	apiVersion, _ := obj["apiVersion"].(string)
	if m.kind, _ = obj["kind"].(string); m.kind == "" {
		return nil
	}
	m.group, m.version, _ = strings.Cut(apiVersion, "/")
	return m
}

// parallel calls do for 0 to n-1, on all cores.
func parallel(n int, do func(i int)) {
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		next int
	)
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n {
					return
				}
				do(i)
			}
		})
	}
	wait.Wait()
}
