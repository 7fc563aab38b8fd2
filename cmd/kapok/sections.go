package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sectionOf is the annotation of a flag with the section of the help in which it is.
const sectionOf = "kapok.dev/section"

// inSection puts the flags that a function adds into a section.
func inSection(f *pflag.FlagSet, title string, add func()) {
	before := map[*pflag.Flag]bool{}
	f.VisitAll(func(flag *pflag.Flag) { before[flag] = true })
	add()
	f.VisitAll(func(flag *pflag.Flag) {
		if !before[flag] {
			_ = f.SetAnnotation(flag.Name, sectionOf, []string{title}) // it exists
		}
	})
}

// A section is a heading of the help with its flags.
type section struct {
	title string
	flags *pflag.FlagSet
}

// sectionsOf returns the sections in the order in which their first flags were added; those without
// a section are in the last one.
func sectionsOf(f *pflag.FlagSet, titles []string) []section {
	const rest = "Other flags"
	all := make([]section, 0, len(titles)+1)
	for _, title := range append(slices.Clone(titles), rest) {
		all = append(all, section{title, pflag.NewFlagSet(title, pflag.ContinueOnError)})
	}
	f.VisitAll(func(flag *pflag.Flag) {
		title := rest
		if of := flag.Annotations[sectionOf]; len(of) > 0 {
			title = of[0]
		}
		i := slices.IndexFunc(all, func(s section) bool { return s.title == title || s.title == rest })
		all[i].flags.AddFlag(flag)
	})
	return slices.DeleteFunc(all, func(s section) bool { return !s.flags.HasAvailableFlags() })
}

// helpInSections has the help of a command list its flags by sections.
func helpInSections(c *cobra.Command, titles []string) {
	c.SetUsageFunc(func(c *cobra.Command) error {
		return writeUsage(c.OutOrStderr(), c, sectionsOf(c.Flags(), titles))
	})
}

func writeUsage(w io.Writer, c *cobra.Command, sections []section) error {
	fmt.Fprintf(w, "Usage:\n  %s\n", c.UseLine())
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	for _, s := range sections {
		if _, err := fmt.Fprintf(w, "\n%s:\n%s", s.title, s.flags.FlagUsages()); err != nil {
			return err
		}
	}
	return nil
}

// inGroups orders the commands of the help.
func inGroups(root *cobra.Command) {
	for _, g := range []struct {
		title    string
		commands []string
	}{
		{"Start here", []string{"tour"}},
		{"Servers", []string{"up", "list", "status", "logs", "stop", "delete", "config"}},
		{"Use and maintain a server", []string{"kubectl", "console", "why", "history", "diff", "undo", "doctor", "snapshot", "user", "node", "image", "bench", "controllers"}},
		{"Manifests, without a server", []string{"check", "convert"}},
		{"Write an operator", []string{"init", "create", "edit", "upgrade", "generate", "vet", "import", "explain", "alpha", "dev", "port", "envtest"}},
		{"About this program", []string{"version", "reference", "completion", "help"}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range root.Commands() {
			if slices.Contains(g.commands, c.Name()) {
				c.GroupID = g.title
			}
		}
	}
}

// completeValues has a shell complete the value of a flag.
func completeValues(c *cobra.Command, flag string, values ...cobra.Completion) {
	_ = c.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		fitting := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !strings.HasPrefix(v, word) })
		return fitting, cobra.ShellCompDirectiveNoFileComp
	})
}
