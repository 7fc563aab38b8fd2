// Package translations spares commands other than kubectl what kubectl's packages do when a program begins: the first of their variables
// that holds a help text has the translations of all of them read, which takes 11 ms and 4 MB, and a server has no use for them.
//
// It is imported for its effect. That has to come before those variables are initialised, and so cannot be anywhere but in an init function.
// Go initialises packages in the order of their paths as far as their imports allow it, and this one's comes before all of k8s.io.
package translations

import (
	"os"
	"path/filepath"
	"strings"

	"k8s.io/kubectl/pkg/util/i18n"
)

func init() {
	// The error is that translations are there already: that is slower, and not wrong.
	_ = i18n.SetLoadTranslationsFunc(func() error {
		if !wanted(os.Args) {
			return nil
		}
		return i18n.LoadTranslations("kubectl", nil)
	})
}

// wanted says whether a process with these arguments may be kubectl: "kubectl get pods", "kapok kubectl get pods",
// "kapok help kubectl", "kapok __complete kubectl get".
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
