package process

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// expand replaces $(NAME) by the value of a variable, and $$ by $. References to unknown variables,
// and what is no reference, stay as they are.
func expand(text string, value func(name string) (string, bool)) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			text = after[1:]
			continue
		case strings.HasPrefix(after, "("):
			if name, rest, closed := strings.Cut(after[1:], ")"); closed {
				if v, known := value(name); known {
					out.WriteString(v)
				} else {
					out.WriteString("$(" + name + ")")
				}
				text = rest
				continue
			}
		}
		out.WriteByte('$')
		text = after
	}
}

// withSubPaths returns a container in which each subPathExpr is replaced by the subPath that it
// stands for. A reference to an unknown variable is an error, with the words of a kubelet.
func withSubPaths(c *corev1.Container, value func(name string) (string, bool)) (*corev1.Container, error) {
	copied := false
	for i := range c.VolumeMounts {
		if c.VolumeMounts[i].SubPathExpr == "" {
			continue
		}
		if !copied {
			c, copied = c.DeepCopy(), true
		}
		var err error
		m := &c.VolumeMounts[i]
		m.SubPath = expand(m.SubPathExpr, func(name string) (string, bool) {
			v, known := value(name)
			if !known {
				err = missing{fmt.Sprintf("missing value for %q", name)}
			}
			return v, known
		})
		if err != nil {
			return nil, err
		}
		if m.SubPath == "" { // not the whole volume
			m.SubPath = "."
		}
	}
	return c, nil
}
