package main

import (
	"fmt"
	"strings"
)

// write is one request. Its body may refer to {uid PATH}, the uid of an object, and to {big}, a
// text of 100 KB.
type write struct {
	line                    int
	method, path, mediaType string
	body                    string
}

// parse reads requests: a line METHOD PATH, and the body up to an empty line. Lines that start with
// # are comments. The methods APPLY, STRATEGIC, MERGE and JSON are those of PATCH.
func parse(text string) (writes []write, err error) {
	body := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			body = false
		case body:
			last := &writes[len(writes)-1]
			last.body += line + "\n"
		default:
			w := write{line: i + 1, mediaType: "application/json"}
			method, path, ok := strings.Cut(line, " ")
			if !ok || !strings.HasPrefix(path, "/") {
				return nil, fmt.Errorf("line %d: must be METHOD PATH", i+1)
			}
			switch w.method, w.path = "PATCH", path; method {
			case "POST", "PUT", "DELETE":
				w.method = method
			case "APPLY":
				w.mediaType = "application/apply-patch+yaml"
			case "STRATEGIC":
				w.mediaType = "application/strategic-merge-patch+json"
			case "MERGE":
				w.mediaType = "application/merge-patch+json"
			case "JSON":
				w.mediaType = "application/json-patch+json"
			default:
				return nil, fmt.Errorf("line %d: unknown method %s", i+1, method)
			}
			writes, body = append(writes, w), true
		}
	}
	return writes, nil
}
