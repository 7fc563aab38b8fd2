package main

import (
	"strings"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/internal/journal"

	"github.com/spf13/pflag"
)

func archiveFlags(f *pflag.FlagSet, o *kapok.ArchiveOptions) {
	f.Var((*archiveRules)(&o.Rules), "archive", "objects whose revisions are kept beyond --history-age, and for how long after it, as RESOURCE.GROUP/NAMESPACE=TIME, such as deployments.apps/shop=720h, configmaps=720h or *=24h; may be repeated, and the first that matches an object applies")
	o.Bytes = journal.DefaultArchiveBytes
	f.Var((*quantity)(&o.Bytes), "archive-size", "size of the archive of revisions; beyond it, the oldest are removed")
}

// archiveRules is a list of rules as a flag. It implements pflag.SliceValue.
type archiveRules []kapok.ArchiveRule

func (a *archiveRules) Type() string   { return "rules" }
func (a *archiveRules) String() string { return strings.Join(a.GetSlice(), ",") }

// Set adds the rules of a text to those that are there.
func (a *archiveRules) Set(text string) error {
	for rule := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		if err := a.Append(rule); err != nil {
			return err
		}
	}
	return nil
}

func (a *archiveRules) Append(text string) error {
	r, err := journal.ParseArchiveRule(text)
	if err == nil {
		*a = append(*a, r)
	}
	return err
}

func (a *archiveRules) Replace(texts []string) error {
	*a = nil
	for _, text := range texts {
		if err := a.Append(text); err != nil {
			return err
		}
	}
	return nil
}

func (a *archiveRules) GetSlice() (texts []string) {
	for _, r := range *a {
		texts = append(texts, r.String())
	}
	return texts
}
