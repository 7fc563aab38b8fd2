// Command tiny stands for kapok in the tests of the release: it is built within seconds, depends on
// a module, and answers what the release asks.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

// released is set by the build, as in cmd/kapok.
var released string

func main() {
	switch arguments := strings.Join(os.Args[1:], " "); {
	case arguments == "version":
		fmt.Println("kapok", released, semver.IsValid(released))
	case strings.HasPrefix(arguments, "completion "):
		fmt.Println("# complete kapok in", os.Args[2])
	case strings.HasPrefix(arguments, "reference --format man ") && len(os.Args) == 5:
		if err := pages(os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		fmt.Fprintf(os.Stderr, "unexpected arguments %q\n", os.Args[1:])
		os.Exit(2)
	}
}

func pages(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "kapok.1"), []byte(".TH KAPOK 1 \""+os.Getenv("SOURCE_DATE_EPOCH")+"\"\n"), 0o644)
}
