package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/auth/pki"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
)

func newUser() *cobra.Command {
	c := &cobra.Command{Use: "user", Short: "Make users who can log in"}
	c.AddCommand(newUserAdd())
	return c
}

// userAdd is the command line of kapok user add.
type userAdd struct {
	groups     []string
	dataDir    string
	kubeconfig string // of a server that is asked in place of the directory
	output     string
	server     string
	expires    time.Duration
	allowAdmin bool
}

func newUserAdd() *cobra.Command {
	u := &userAdd{}
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Write a kubeconfig with which somebody can log in",
		Long: `Write a kubeconfig with which somebody can log in.

It holds a certificate that the authority in the data directory signs, and works whether the server runs or not. The
server keeps no list of its users: the certificate says who somebody is, and roles say what he may. Nothing takes a
certificate back before it expires, so take the roles away from who must not come in any more.

Servers that share an etcd keep their authority there, and not in a directory. With --kubeconfig, the server is asked
for the certificate in the name of who may approve it.`,
		Example: `  kapok user add alice --group developers --output alice.kubeconfig
  kapok user add ci --expires 24h > ci.kubeconfig
  kapok user add bob --kubeconfig admin.kubeconfig > bob.kubeconfig`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := u.check(args[0]); err != nil {
				return err
			}
			return failed(u.run(c.Context(), args[0], c.OutOrStdout(), c.ErrOrStderr(), time.Now()))
		},
	}
	f := c.Flags()
	f.StringArrayVar(&u.groups, "group", nil, "group of the user; may be repeated")
	f.StringVar(&u.dataDir, "data-dir", "", "data directory of the server (default "+shown(defaultDataDir())+")")
	f.StringVar(&u.kubeconfig, "kubeconfig", "", "kubeconfig of an admin, whose server is asked for the certificate in place of the data directory")
	f.StringVarP(&u.output, "output", "o", "-", "file for the kubeconfig, which must not be there yet; - for the standard output")
	f.StringVar(&u.server, "server", "", "URL of the server, https://HOST:PORT (default that of the kubeconfig in the data directory)")
	f.DurationVar(&u.expires, "expires", 30*24*time.Hour, "how long the certificate holds")
	f.BoolVar(&u.allowAdmin, "allow-admin", false, "let the user be of group "+auth.Masters+", who may do everything for ever: no role can be taken away from him")
	c.MarkFlagsMutuallyExclusive("data-dir", "kubeconfig")
	c.MarkFlagsMutuallyExclusive("allow-admin", "kubeconfig") // servers sign no such certificate
	return c
}

// check refuses names that the server gives to others.
func (u *userAdd) check(name string) error {
	if err := checkName("user", name); err != nil {
		return err
	}
	for _, group := range u.groups {
		if group == auth.Masters && u.allowAdmin {
			continue
		}
		if group == auth.Masters {
			return fmt.Errorf("who is of group %s may do everything, and no role can be taken away from him: say --allow-admin if that is wanted", group)
		}
		if err := checkName("group", group); err != nil {
			return err
		}
	}
	switch {
	case u.expires <= 0:
		return fmt.Errorf("--expires must be more than nothing, like 720h, not %v", u.expires)
	case u.output == "":
		return errors.New("--output must not be empty: want a file, or - for the standard output")
	case u.server == "":
		return nil
	}
	if at, err := url.Parse(u.server); err != nil || at.Scheme != "https" || at.Host == "" {
		return fmt.Errorf("--server %q: want https://HOST:PORT", u.server)
	}
	return nil
}

// longestName is what a certificate may have for a name (RFC 5280).
const longestName = 64

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name of a %s must not be empty", what)
	case len(name) > longestName:
		return fmt.Errorf("%s %.20q...: a name must not be longer than %d bytes", what, name, longestName)
	case strings.HasPrefix(name, "system:"):
		return fmt.Errorf("%s %q: names that begin with system: are Kubernetes' own", what, name)
	case what == "user" && name == auth.AdminName:
		return fmt.Errorf("user %q is the admin, whose kubeconfig the server writes", name)
	case strings.TrimSpace(name) != name || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%s %q: a name must be printable, without space around it", what, name)
	}
	return nil
}

func (u *userAdd) run(ctx context.Context, name string, stdout, stderr io.Writer, now time.Time) error {
	sign := u.bySelf
	if u.kubeconfig != "" {
		sign = u.byServer
	}
	certificate, server, err := sign(ctx, name, now)
	if err != nil {
		return err
	}
	if u.server != "" {
		server = u.server
	}
	kubeconfig, err := certificate.Kubeconfig(server, name)
	if err != nil {
		return err
	}
	if err := u.write(kubeconfig, stdout); err != nil {
		return err
	}
	if u.output != "-" {
		stderr = stdout // where it is in nobody's way
	}
	u.explain(stderr, name, certificate.NotAfter)
	return nil
}

// bySelf signs with the authority in the data directory.
func (u *userAdd) bySelf(_ context.Context, name string, now time.Time) (_ *pki.Client, server string, err error) {
	dir := u.dataDir
	if dir == "" {
		if dir, err = defaultDataDir(); err != nil {
			return nil, "", fmt.Errorf("no default for --data-dir: %w", err)
		}
	}
	authority, err := pki.ReadAuthority(filepath.Join(dir, "pki"), now)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("%w: want the data directory of a kapok up that has run once, without --in-memory and --store, or --kubeconfig", err)
	}
	if err != nil {
		return nil, "", err
	}
	if u.server == "" {
		if server, err = serverOf(dir); err != nil {
			return nil, "", err
		}
	}
	certificate, err := authority.Client(name, u.groups, u.expires, now)
	return certificate, server, err
}

// serverOf is the address of the server that runs on a data directory.
func serverOf(dir string) (string, error) {
	file := filepath.Join(dir, "kubeconfig")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no %s, as no server runs: say where it will be reached, --server https://HOST:PORT", file)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return "", fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	return config.Host, nil
}

func (u *userAdd) write(kubeconfig []byte, stdout io.Writer) error {
	if u.output == "-" {
		_, err := stdout.Write(kubeconfig)
		return err
	}
	if _, err := os.Lstat(u.output); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return err
		}
		return fmt.Errorf("%s is there already: choose another file", u.output)
	}
	return pki.WriteFile(u.output, kubeconfig)
}

// explain says what the user is good for, and what is to be done next.
func (u *userAdd) explain(w io.Writer, name string, until time.Time) {
	fmt.Fprintf(w, "%s can log in until %s.\n", name, until.UTC().Format("2006-01-02 15:04 MST"))
	if u.allowAdmin {
		return
	}
	flag, who := "--user", name
	if len(u.groups) > 0 {
		flag, who = "--group", u.groups[0]
	}
	if strings.ContainsFunc(who, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.@:/", r)
	}) {
		who = "'" + strings.ReplaceAll(who, "'", `'\''`) + "'"
	}
	fmt.Fprintf(w, "What he may do is said by roles. To let him change most of what is in a namespace, as the admin:\n\n")
	fmt.Fprintf(w, "  kubectl create rolebinding NAME --clusterrole edit %s %s --namespace default\n", flag, who)
}
