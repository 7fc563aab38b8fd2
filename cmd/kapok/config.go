package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/kapok-dev/kapok"

	"github.com/spf13/cobra"
)

func newConfig() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "View, validate and create configuration files of kapok up"}
	c.AddCommand(newConfigView(), newConfigValidate(), newConfigMigrate())
	group(c)
	return c
}

func newConfigView() *cobra.Command {
	u := newUpState()
	server, all := u.command(), false
	c := &cobra.Command{
		Use:   "view [NAME]",
		Short: "Print the configuration that kapok up would run with",
		Long: `Print the configuration that kapok up would run with, as a configuration file: the fields that a flag, a
variable or a file sets. It takes the flags of kapok up.`,
		Example: `  kapok config view
  kapok config view --config server.yaml --listen 127.0.0.1:7000
  kapok config view --all`,
		Args:              maybeOneArg("NAME"),
		ValidArgsFunction: completeInstance,
		RunE: func(c *cobra.Command, args []string) error {
			if err := u.configure(c.Flags(), args); err != nil {
				return failed(err)
			}
			return failed(writeConfiguration(c.OutOrStdout(), c.Flags(), all))
		},
	}
	c.Flags().AddFlagSet(server.Flags())
	c.Flags().BoolVar(&all, "all", false, "print the defaults of all other fields, too")
	ofCommand := c.Flags().Lookup("all")
	ofCommand.Hidden = true // it is in the usage below, and no field
	c.SetUsageFunc(func(c *cobra.Command) error {
		if err := writeUsage(c.OutOrStderr(), c, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c.OutOrStderr(), "\nFlags:\n      --all    %s\n      and the flags of kapok up\n", ofCommand.Usage)
		return err
	})
	return c
}

func newConfigValidate() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a configuration file of kapok up",
		Long: `Check a configuration file of kapok up: its fields, their values, and which exclude each other. Other files that
it names are read when the server starts, and most are not checked here.`,
		Example: `  kapok config validate server.yaml`,
		Args:    oneArg("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			return failed(validateConfiguration(args[0], c.OutOrStdout()))
		},
	}
}

func validateConfiguration(file string, stdout io.Writer) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	u := newUpState()
	c := u.command()
	fields, err := readConfiguration(data)
	if err == nil {
		err = setByFields(c.Flags(), fields)
	}
	if err == nil {
		err = u.excluded(c)
	}
	if err == nil {
		var opts kapok.Options
		if opts, err = u.complete(io.Discard); err == nil {
			if err = inFlags(opts.Validate(), c.Flags(), &u.options); errors.Is(err, fs.ErrNotExist) {
				err = nil // a certificate: the file may be for another machine
			}
		}
	}
	if err != nil {
		return fmt.Errorf("configuration %s: %w", file, err)
	}
	_, err = fmt.Fprintf(stdout, "%s is valid.\n", file)
	return err
}
