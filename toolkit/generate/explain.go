package generate

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/genall/help"
	"sigs.k8s.io/controller-tools/pkg/genall/help/pretty"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// The levels of detail of Markers, as of the flag -w of controller-gen.
const (
	summaries = iota + 1
	details
	allDetails
	asJSON
)

// Markers prints the markers of the generators of controller-tools that options select, by default
// of all. The level is from 1, a line for each marker, to 4, all details as JSON.
func Markers(w io.Writer, options []string, level int) error {
	known, err := registry()
	if err != nil {
		return err
	}
	if err := checkOptions(known, options); err != nil {
		return err
	}
	if len(options) == 0 {
		for name := range generators() {
			options = append(options, name)
		}
		slices.Sort(options)
	}
	selected, err := genall.RegistryFromOptions(known, options)
	if err != nil {
		return err
	}
	categories := help.ByCategory(selected, help.SortByCategory)
	if level >= asJSON {
		return json.NewEncoder(w).Encode(categories)
	}
	for _, c := range categories {
		if c.Category == "" {
			continue
		}
		text := pretty.MarkersSummary(c.Category, c.Markers)
		if level > summaries {
			text = pretty.MarkersDetails(level >= allDetails, c.Category, c.Markers)
		}
		if err := text.Write(w); err != nil {
			return err
		}
	}
	return nil
}

// Explain prints the documentation of a marker, such as +kubebuilder:validation:MinLength.
func Explain(w io.Writer, marker string) error {
	all := &markers.Registry{}
	for _, g := range generators() {
		if err := g.RegisterMarkers(all); err != nil {
			return err
		}
	}
	if err := registerOwn(all); err != nil {
		return err
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(marker, "+"), "=")
	docs := map[string][]help.MarkerDoc{}
	for _, c := range help.ByCategory(all, help.SortByCategory) {
		for _, m := range c.Markers {
			docs[m.Name] = append(docs[m.Name], m)
		}
	}
	names := slices.Sorted(maps.Keys(docs))
	same := docs[name]
	if i := strings.LastIndex(name, ":"); len(same) == 0 && i > 0 && strings.Contains(marker, "=") {
		same = docs[name[:i]] // NAME:argument=value
	}
	if len(same) > 0 {
		targets := same[0].Target
		for _, m := range same[1:] {
			targets += " or a " + m.Target // with the same documentation
		}
		explain(w, same[0], targets)
		return nil
	}
	return fmt.Errorf("unknown marker +%s%s", name, didYouMean(name, names, "+"))
}

// explain prints a marker as package doc prints a function.
func explain(w io.Writer, m help.MarkerDoc, targets string) {
	form := "+" + m.Name
	switch {
	case m.AnonymousField():
		form += "=<" + m.Fields[0].TypeString() + ">"
	case !m.Empty():
		var fields []string
		for _, f := range m.Fields {
			field := f.Name + "=<" + f.TypeString() + ">"
			if f.Optional {
				field = "[" + field + "]"
			}
			fields = append(fields, field)
		}
		form += ":" + strings.Join(fields, ",")
	}
	fmt.Fprintf(w, "%s\n    on a %s\n", form, targets)
	if m.DeprecatedInFavorOf != nil {
		fmt.Fprintf(w, "    deprecated")
		if *m.DeprecatedInFavorOf != "" {
			fmt.Fprintf(w, ": use +%s", *m.DeprecatedInFavorOf)
		}
		fmt.Fprintln(w)
	}
	paragraph(w, "    ", m.Summary)
	paragraph(w, "    ", m.Details)
	if m.AnonymousField() {
		return
	}
	for _, f := range m.Fields {
		fmt.Fprintf(w, "\n    %s\n", f.Name)
		paragraph(w, "        ", f.Summary)
		paragraph(w, "        ", f.Details)
	}
}

func paragraph(w io.Writer, indent, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(w, "%s%s\n", indent, strings.TrimRight(line, "\n"))
	}
}
