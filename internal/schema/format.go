package schema

import (
	"strings"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// format is a declared format that Kubernetes supports for the declared type; others are ignored.
type format struct {
	name  string
	valid func(string) bool // nil for the formats of numbers
}

// formatFor returns the format of a schema, or nil if it has none, or an ignored one.
func formatFor(name string, types typeSet) *format {
	switch {
	case name == "":
	case types == typeInteger:
		if name == "int32" || name == "int64" {
			return &format{name: name}
		}
	case types == typeNumber:
		if name == "float" || name == "double" {
			return &format{name: name}
		}
	case types == 0, types == typeString, types == typeInteger|typeString:
		if valid := stringFormat(strings.ReplaceAll(name, "-", "")); valid != nil {
			return &format{name: name, valid: valid}
		}
	}
	return nil
}

// stringFormat returns the check of a string format, whose name is given without dashes, or nil.
// Formats without a dedicated function are checked by name, which takes the registry's lock.
func stringFormat(name string) func(string) bool {
	switch name {
	case "bsonobjectid":
		return strfmt.IsBSONObjectID
	case "date":
		return strfmt.IsDate
	case "datetime":
		return func(s string) bool { return plainDateTime(s) || strfmt.IsDateTime(s) }
	case "duration":
		return strfmt.IsDuration
	case "email":
		return strfmt.IsEmail
	case "hostname":
		return func(s string) bool { return plainHostname(s) || strfmt.IsHostname(s) }
	case "uuid":
		return strfmt.IsUUID
	case "uuid3":
		return strfmt.IsUUID3
	case "uuid4":
		return strfmt.IsUUID4
	case "uuid5":
		return strfmt.IsUUID5
	case "k8sshortname":
		return strfmt.IsShortName
	case "k8slongname":
		return strfmt.IsLongName
	case "password":
		return func(string) bool { return true }
	case "uri", "ipv4", "ipv6", "cidr", "mac", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte":
		return func(s string) bool { return strfmt.Default.Validates(name, s) }
	}
	return nil
}

// plainDateTime accepts the form of nearly all times, 2006-01-02T15:04:05Z with a day that every
// month has, without the regular expressions of the full check.
func plainDateTime(s string) bool {
	const layout = "1000-01-01T00:00:00Z"
	if len(s) != len(layout) {
		return false
	}
	for i := range len(layout) {
		if c := layout[i]; c >= '0' && c <= '9' {
			if s[i] < '0' || s[i] > '9' {
				return false
			}
		} else if s[i] != c {
			return false
		}
	}
	return s[0] > '0' && s[5:7] >= "01" && s[5:7] <= "12" && s[8:10] >= "01" && s[8:10] <= "28" &&
		s[11:13] <= "23" && s[14:16] <= "59" && s[17:19] <= "59"
}

// plainHostname accepts the form of nearly all hostnames: one label without dashes, or several that
// end with letters.
func plainHostname(s string) bool {
	if len(s) > 255 {
		return false
	}
	start, dashed, digits := 0, false, false // of the current label
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z':
		case c >= '0' && c <= '9':
			digits = true
		case c == '-' && i > start:
			dashed = true
		case c == '.' && i > start && i-start <= 63 && s[i-1] != '-':
			start, dashed, digits = i+1, false, false
		default:
			return false
		}
	}
	last := len(s) - start
	if last > 63 || dashed {
		return false
	}
	return start == 0 && last > 0 || last > 1 && !digits
}
