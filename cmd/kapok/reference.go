package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newReference() *cobra.Command {
	format := "markdown"
	c := &cobra.Command{
		Use:   "reference DIR",
		Short: "Write the pages of all commands, in Markdown or as manual pages",
		Long: `Write the pages of all commands into a directory, which is created: in Markdown, or as manual pages
for man. Files of the same names are overwritten.`,
		Example: `  kapok reference ./reference
  kapok reference --format man ~/.local/share/man/man1`,
		Args: oneArg("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			if format != "markdown" && format != "man" {
				return fmt.Errorf("--format is %q: want markdown or man", format)
			}
			return failed(writeReference(c.Root(), args[0], format))
		},
	}
	c.Flags().StringVar(&format, "format", format, "markdown or man")
	completeValues(c, "format", "markdown", "man")
	return c
}

func writeReference(root *cobra.Command, dir, format string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	root.DisableAutoGenTag = true // the pages do not depend on the day
	if format == "man" {
		return doc.GenManTree(root, &doc.GenManHeader{Title: "KAPOK", Section: "1", Source: "Kapok " + version(), Manual: "Kapok"}, dir)
	}
	return doc.GenMarkdownTree(root, dir)
}
