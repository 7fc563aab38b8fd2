package generate

import (
	"bytes"
	"context"
	"go/token"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// Definitions are the CustomResourceDefinitions of packages, and the packages.
type Definitions struct {
	// YAML has a document for each definition.
	YAML []byte
	// Context has the packages, and reads their markers.
	Context genall.GenerationContext
	// Files has the positions in their sources.
	Files *token.FileSet
	// Known are the markers of all generators.
	Known *markers.Registry
}

// DefinitionsOf generates the definitions of packages in memory. Of the options args, a generator
// must be crd. The error lists every problem in the sources, with its position; if it has other
// reasons, Definitions is nil.
func DefinitionsOf(ctx context.Context, args []string) (*Definitions, error) {
	options := Options{Args: args}
	known, runs, dir, err := options.prepare()
	if err != nil {
		return nil, err
	}
	d := &Definitions{Files: token.NewFileSet(), Known: &markers.Registry{}}
	for _, g := range generators() {
		if err := g.RegisterMarkers(d.Known); err != nil {
			return nil, err
		}
	}
	if err := registerOwn(d.Known); err != nil {
		return nil, err
	}
	run, err := newRuntime(ctx, goList{}, d.Files, known, runs[0])
	if err != nil {
		return nil, plainly(err)
	}
	if err := registerOwn(run.Collector.Registry); err != nil {
		return nil, err
	}
	d.Context = run.GenerationContext
	out := newOutput(dir)
	run.OutputRules = out.collect(run.OutputRules)
	err = generateAll(ctx, run, d.Files, out)
	var text bytes.Buffer
	for _, path := range slices.Sorted(maps.Keys(out.files)) {
		text.WriteString("---\n" + strings.TrimPrefix(out.files[path].String(), "---\n"))
	}
	d.YAML = text.Bytes()
	return d, err
}

// Position returns a position in the sources, with the file relative to the working directory if it
// is below.
func (d *Definitions) Position(at token.Pos) token.Position { return position(d.Files, at) }
