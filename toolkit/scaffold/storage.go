package scaffold

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/resource"
)

const storageMarker = "// +kubebuilder:storageversion"

// markStorage marks the version in which objects of a kind are stored, when it gets another
// version: without a mark no definition can be generated. The version is one that exists already,
// so that stored objects stay as they are. Nothing happens if any version has the mark.
func (s *step) markStorage(files machinery.Filesystem, r *resource.Resource) error {
	known, err := s.config.GetResources()
	if err != nil {
		return err
	}
	var first *types
	for _, k := range known {
		if k.Group != r.Group || k.Kind != r.Kind || !k.HasAPI() || !strings.HasPrefix(k.Path, s.config.GetRepository()+"/") {
			continue
		}
		dir := filepath.FromSlash(strings.TrimPrefix(k.Path, s.config.GetRepository()+"/"))
		of, err := findType(files, dir, k.Kind)
		if err != nil {
			return err
		}
		if of == nil || of.isStorage() {
			return nil
		}
		if first == nil && k.Version != r.Version {
			first = of
		}
	}
	if first == nil {
		return nil
	}
	fmt.Fprintf(s.plugin.out, "  %s: objects are stored in this version (%s)\n", first.path, strings.TrimPrefix(storageMarker, "// "))
	return first.mark(files)
}

// types is a file with the Go type of a kind.
type types struct {
	path string
	data []byte
	set  *token.FileSet
	file *ast.File
	decl *ast.GenDecl
}

// findType finds the Go type of a kind in the files of a directory; nil if there is none.
func findType(files machinery.Filesystem, dir, kind string) (*types, error) {
	paths, err := afero.Glob(files.FS, filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		data, err := afero.ReadFile(files.FS, path)
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(data, []byte(kind)) {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE || len(decl.Specs) != 1 || decl.Specs[0].(*ast.TypeSpec).Name.Name != kind {
				continue
			}
			return &types{path, data, set, file, decl}, nil
		}
	}
	return nil, nil
}

// isStorage reports whether a type has the mark: in its doc, or in a comment before it, where
// controller-tools looks, too.
func (t *types) isStorage() bool {
	before := t.data[:t.set.Position(t.decl.TokPos).Offset]
	if i := bytes.LastIndexAny(before, "}"); i >= 0 {
		before = before[i:]
	}
	return bytes.Contains(before, []byte("+kubebuilder:storageversion"))
}

// mark writes the mark: at the end of the markers above the documentation of the type, where
// kubebuilder has them, or else right above the type.
func (t *types) mark(files machinery.Filesystem) error {
	at, line := t.set.Position(t.decl.TokPos).Offset, storageMarker+"\n"
	if t.decl.Doc != nil {
		for _, group := range t.file.Comments {
			end, doc := t.set.Position(group.End()).Offset, t.set.Position(t.decl.Doc.Pos()).Offset
			if end < doc && len(bytes.TrimSpace(t.data[end:doc])) == 0 {
				at, line = end, "\n"+storageMarker
			}
		}
	}
	return afero.WriteFile(files.FS, t.path, bytes.Join([][]byte{t.data[:at], t.data[at:]}, []byte(line)), 0o644)
}
