package corpus

import (
	"fmt"
	"strconv"

	"github.com/cockroachdb/datadriven"
)

// parameters are the arguments of a step, see the package.
type parameters struct {
	name      string // the first argument without a key: a stream, a path, a definition
	text      string // a second argument without a key
	as        string
	show      []string
	headers   []string
	keep      []string // headers
	managed   bool
	body      string
	anonymous bool
	unordered bool
	warnings  bool // unordered
	until     int
	count     int
	end       bool
}

func parseParameters(args []datadriven.CmdArg) (parameters, error) {
	var p parameters
	for _, a := range args {
		value, err := "", error(nil)
		if len(a.Vals) > 0 {
			value = a.Vals[0]
		}
		switch a.Key {
		case "as":
			p.as = value
		case "show":
			p.show = a.Vals
		case "headers":
			p.headers = a.Vals
		case "keep-headers":
			p.keep = a.Vals
		case "managed":
			p.managed = true
		case "body":
			p.body = value
		case "anonymous":
			p.anonymous = true
		case "unordered":
			p.unordered = true
		case "unordered-warnings":
			p.warnings = true
		case "until":
			p.until, err = strconv.Atoi(value)
		case "count":
			p.count, err = strconv.Atoi(value)
		case "end":
			p.end = true
		default:
			switch {
			case len(a.Vals) > 0 || p.text != "":
				err = fmt.Errorf("unknown argument")
			case p.name == "":
				p.name = a.Key
			default:
				p.text = a.Key
			}
		}
		if err != nil {
			return p, fmt.Errorf("argument %s: %w", a.Key, err)
		}
	}
	return p, nil
}
