package rule

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxDriverName is the length in bytes of the longest name of a CSI driver.
const MaxDriverName = 63

// ValidateDriverName returns the errors of the name of a CSI driver, which may have capitals.
func ValidateDriverName(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var all field.ErrorList
	if len(name) > MaxDriverName {
		all = append(all, field.TooLong(at, "", MaxDriverName))
	}
	return append(all, Invalid(at, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))...)
}

// ValidateDataKey accepts keys of config maps and secrets.
func ValidateDataKey(key string, path *field.Path) field.ErrorList {
	return Invalid(path, key, validation.IsConfigMapKey(key))
}

// ValidateLabel accepts names that are a DNS label.
func ValidateLabel(path *field.Path, value string) field.ErrorList {
	return Invalid(path, value, validation.IsDNS1123Label(value))
}

// ValidateQualifiedName accepts qualified names, such as the keys of labels.
func ValidateQualifiedName(path *field.Path, value string) field.ErrorList {
	return Invalid(path, value, validation.IsQualifiedName(value))
}

// Qualified reports whether a name has a prefix that names its owner, such as example.com/.
func Qualified(name string) bool { return strings.Contains(name, "/") }

// ValidateNoBacksteps rejects paths of files that contain "..".
func ValidateNoBacksteps(target string, at *field.Path) field.ErrorList {
	if slices.Contains(strings.Split(target, "/"), "..") {
		return field.ErrorList{field.Invalid(at, target, "must not contain '..'")}
	}
	return nil
}
