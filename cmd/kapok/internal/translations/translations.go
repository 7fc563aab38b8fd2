// Package translations keeps commands other than kubectl from loading kubectl's translations. By
// default the first package variable of kubectl with a help text loads all of them during
// initialisation, which takes 11 ms and 4 MB, and a server does not need them.
//
// The package is imported for its side effect, which must happen before those variables are
// initialised, so only an init function can do it. Go initialises packages in the order of their
// import paths, as far as their imports allow, and the path of this package sorts before k8s.io.
package translations

import (
	"os"
	"path/filepath"
	"strings"

	"k8s.io/kubectl/pkg/util/i18n"
)

func init() {
	// An error means that translations are loaded already, which is slower but correct.
	_ = i18n.SetLoadTranslationsFunc(func() error {
		if !wanted(os.Args) {
			return nil
		}
		return i18n.LoadTranslations("kubectl", nil)
	})
}

// wanted reports whether a process with these arguments may be kubectl: "kubectl get pods", "kapok
// kubectl get pods", "kapok help kubectl", "kapok __complete kubectl get".
func wanted(args []string) bool {
	if len(args) == 0 {
		return false
	}
	name := strings.ToLower(filepath.Base(args[0]))
	if strings.HasPrefix(name, "kubectl") {
		return true
	}
	for _, arg := range args[1:min(len(args), 3)] {
		if arg == "kubectl" {
			return true
		}
	}
	return false
}
