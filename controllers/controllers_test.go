package controllers

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, tc := range []struct {
		names []string
		want  string // of those selected, or the error
	}{
		{nil, "*"},
		{[]string{"*"}, "*"},
		{[]string{"deployment-controller"}, "deployment-controller"},
		{[]string{"deployment", "replicaset"}, "deployment-controller replicaset-controller"},
		{[]string{"-deployment", "replicaset"}, "replicaset-controller"},
		{[]string{"deployment", "-deployment"}, "deployment-controller"},
		{[]string{"tokencleaner", "-bootstrapsigner"}, "token-cleaner-controller"},
		{[]string{"nothing"}, `"nothing" is not in the list of known controllers`},
		{[]string{"*", "-nothing"}, `"-nothing" is not in the list of known controllers`},
		{[]string{""}, `"" is not in the list of known controllers`},
	} {
		t.Run(strings.Join(tc.names, ","), func(t *testing.T) {
			if err := (Options{Names: tc.names}).Validate(); err != nil {
				if !strings.HasPrefix(err.Error(), tc.want) {
					t.Errorf("error %q, want %q", err, tc.want)
				}
				return
			}
			var got []string
			for _, c := range all {
				if c.selected(tc.names) {
					got = append(got, c.name)
				}
			}
			want := strings.Fields(tc.want)
			if tc.want == "*" {
				want = slices.DeleteFunc(Names(), func(name string) bool { return slices.Contains(optional, name) })
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("selected %q, want %q", got, want)
			}
		})
	}
}

func TestAllButOne(t *testing.T) {
	for _, c := range all {
		want := c.name != "deployment-controller" && c.name != tokenCleaner
		if selected := c.selected([]string{"*", "-deployment", "bootstrapsigner"}); selected != want {
			t.Errorf("%s is selected: %t", c.name, selected)
		}
	}
}

// TestOutsides checks what becomes of the names of controllers that are not here.
func TestOutsides(t *testing.T) {
	for _, tc := range []struct{ name, want string }{ // want: the error
		{"garbage-collector-controller", ""},
		{"garbagecollector", ""},
		{"-garbage-collector-controller", "--housekeeping=-gc of the server turns it off"},
		{"-root-ca-cert-publisher", "--housekeeping=-root-ca of the server turns it off"},
		{"selinux-warning-controller", "there is no selinux-warning-controller: it is off by default"},
		{"-podgroup-protection-controller", ""},
		{"-", `"-" is not in the list of known controllers`},
		{"*,-selinux-warning-controller,namespace", ""},
	} {
		err := Options{Names: strings.Split(tc.name, ",")}.Validate()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestTable checks that the table of docs/controllers.md has every controller with its place.
func TestTable(t *testing.T) {
	data, err := os.ReadFile("../docs/controllers.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+-controller)` \\| (.*) \\|$").FindAllStringSubmatch(string(data), -1) {
		table[m[1]] = m[2]
	}
	if len(table) != 49 { // in Kubernetes 1.37.2
		t.Errorf("the table has %d names", len(table))
	}
	for _, c := range all {
		if c.name != serviceLB && c.name != localPath && table[c.name] != "here" {
			t.Errorf("%s is here, but the table says %q", c.name, table[c.name])
		}
	}
	for _, o := range outsides {
		if slices.ContainsFunc(all, func(c entry) bool { return c.name == o.name }) {
			t.Errorf("%s is here, and outside", o.name)
			continue
		}
		where := table[o.name]
		switch {
		case o.task != "" && strings.HasPrefix(where, "in the server: `"+o.task+"`"):
		case o.task == "" && strings.HasPrefix(where, "missing: "):
		default:
			t.Errorf("the table says of %s: %q", o.name, where)
		}
		delete(table, o.name)
	}
	for name, where := range table {
		if where != "here" {
			t.Errorf("the table says of %s, which is unknown: %q", name, where)
		}
	}
}
