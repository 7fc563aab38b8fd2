package main

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// A reworded error has another text for the user of the command line.
type reworded struct {
	error
	text string
}

func (r *reworded) Error() string { return r.text }
func (r *reworded) Unwrap() error { return r.error }

// optionField matches the fields of kapok.Options in errors, names that may be fields beside them,
// and quoted values, which stay as they are.
var optionField = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\bOptions(?:\.[A-Z]\w+)+|\b[A-Z]\w+\b`)

// inFlags returns an error about fields of options with the flags that set them: a user of the
// command line has not seen the fields.
func inFlags(err error, f *pflag.FlagSet, options any) error {
	if err == nil || !strings.Contains(err.Error(), "Options.") {
		return err
	}
	flags := map[string]string{}
	flagsOf(reflect.ValueOf(options).Elem(), "Options", addresses(f), flags)
	beside := "" // the struct of the last field, whose other fields are named without it
	text := optionField.ReplaceAllStringFunc(err.Error(), func(name string) string {
		switch {
		case name[0] == '"':
			return name
		case strings.HasPrefix(name, "Options."):
			beside = name[:strings.LastIndex(name, ".")]
		default:
			name = beside + "." + name
		}
		if flag, ok := flags[name]; ok {
			return "--" + flag
		}
		return strings.TrimPrefix(name, beside+".")
	})
	return &reworded{err, text}
}

// flagsOf adds the flags that write into a struct, by the paths of the fields.
func flagsOf(v reflect.Value, path string, known map[uintptr]*pflag.Flag, flags map[string]string) {
	for field, value := range v.Fields() {
		if !field.IsExported() {
			continue
		}
		path := path + "." + field.Name
		// A struct has the address of its first field.
		if flag, ok := known[value.Addr().Pointer()]; ok && (value.Kind() != reflect.Struct || reflect.TypeOf(flag.Value).Elem().ConvertibleTo(value.Type())) {
			flags[path] = flag.Name
		}
		if value.Kind() == reflect.Struct {
			flagsOf(value, path, known, flags)
		}
	}
}

// addresses returns the flags by the addresses of the variables that they write: a Value of pflag
// is a pointer to its variable, or has one as its first field.
func addresses(f *pflag.FlagSet) map[uintptr]*pflag.Flag {
	all := map[uintptr]*pflag.Flag{}
	f.VisitAll(func(flag *pflag.Flag) {
		v := reflect.ValueOf(flag.Value)
		if v.Kind() != reflect.Pointer {
			return
		}
		all[v.Pointer()] = flag
		if s := v.Elem(); s.Kind() == reflect.Struct && s.NumField() > 0 && s.Field(0).Kind() == reflect.Pointer {
			all[s.Field(0).Pointer()] = flag
		}
	})
	return all
}
