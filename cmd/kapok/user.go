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

	"github.com/kapok-dev/kapok/cmd/kapok/internal/instance"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/pki"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
)

func newUser() *cobra.Command {
	c := &cobra.Command{Use: "user", Short: "Create users"}
	c.AddCommand(newUserAdd())
	group(c)
	return c
}

// userAdd is the command line of kapok user add.
type userAdd struct {
	groups     []string
	instance   instanceFlag
	dataDir    string
	kubeconfig string // of a server that signs the certificate instead of the data directory's CA
	output     string
	server     string
	expires    time.Duration
	allowAdmin bool
	component  bool
}

func newUserAdd() *cobra.Command {
	u := &userAdd{}
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Write a kubeconfig for a new user",
		Long: `Write a kubeconfig for a new user.

It contains a certificate signed by the CA in the data directory; the server need not run. The server has no list of
users: the certificate names the user, and roles grant access. A certificate cannot be revoked before it expires, so
remove the role bindings of a user to end the access.

Servers that share an etcd store their CA there, and not in a directory. With --kubeconfig, the server signs the
certificate; the user of that kubeconfig must be allowed to approve it.`,
		Example: `  kapok user add alice --group developers --output alice.kubeconfig
  kapok user add ci --expires 24h > ci.kubeconfig
  kapok user add bob --kubeconfig admin.kubeconfig > bob.kubeconfig
  kapok user add system:kube-scheduler --allow-component --output scheduler.kubeconfig`,
		Args: oneArg("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := u.check(args[0]); err != nil {
				return err
			}
			return failed(u.run(c.Context(), args[0], c.OutOrStdout(), c.ErrOrStderr(), time.Now()))
		},
	}
	f := c.Flags()
	f.StringArrayVar(&u.groups, "group", nil, "group of the user; may be repeated")
	f.StringVar(&u.dataDir, "data-dir", "", "data directory of the server, instead of that of an instance")
	u.instance.flag(c)
	f.StringVar(&u.kubeconfig, "kubeconfig", "", "kubeconfig of an admin: its server signs the certificate instead of the CA in the data directory")
	f.StringVarP(&u.output, "output", "o", "-", "file for the kubeconfig, which must not exist; - for the standard output")
	f.StringVar(&u.server, "server", "", "URL of the server, https://HOST:PORT (default that of the kubeconfig in the data directory)")
	f.DurationVar(&u.expires, "expires", 30*24*time.Hour, "lifetime of the certificate")
	f.BoolVar(&u.allowAdmin, "allow-admin", false, "allow membership in group "+authn.Masters+", whose members are never denied: the access cannot be revoked")
	f.BoolVar(&u.component, "allow-component", false, "allow the name of a Kubernetes component, to which default roles grant access: "+
		componentNames()+". The scheduler binds or deletes any pod, the controller manager reads all Secrets and makes tokens of all service accounts, a node is in group "+nodesGroup)
	exclude(c, "allow-component", "allow-admin")
	exclude(c, "data-dir", "kubeconfig")
	exclude(c, "instance", "kubeconfig")
	exclude(c, "instance", "data-dir")
	exclude(c, "allow-admin", "kubeconfig") // servers sign no such certificate
	return c
}

// check rejects names that are reserved by the server.
func (u *userAdd) check(name string) error {
	if c := componentOf(name); u.component {
		if c == nil {
			return fmt.Errorf("user %q is not a component: want %s", name, componentNames())
		}
		if err := c.check(name); err != nil {
			return err
		}
		u.groups = append(u.groups, c.groups...)
		if len(u.groups) > len(c.groups) {
			return fmt.Errorf("component %q has its own groups: --group is for other users", name)
		}
		return u.checkRest()
	} else if c != nil {
		return fmt.Errorf("user %q is a component of Kubernetes with special permissions (it %s): set --allow-component to create it anyway", name, c.gives)
	}
	if err := checkName("user", name); err != nil {
		return err
	}
	for _, group := range u.groups {
		if group == authn.Masters && u.allowAdmin {
			continue
		}
		if group == authn.Masters {
			return fmt.Errorf("members of group %s are never denied, and the access cannot be revoked: set --allow-admin to allow it", group)
		}
		if err := checkName("group", group); err != nil {
			return err
		}
	}
	return u.checkRest()
}

// checkRest checks everything except the names.
func (u *userAdd) checkRest() error {
	switch {
	case u.expires <= 0:
		return fmt.Errorf("--expires must be positive, like 720h, not %v", u.expires)
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

// longestName is the maximum length in bytes of a common name (RFC 5280, ub-common-name).
const longestName = 64

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name of a %s must not be empty", what)
	case len(name) > longestName:
		return fmt.Errorf("%s %.20q...: a name must not be longer than %d bytes", what, name, longestName)
	case strings.HasPrefix(name, "system:"):
		return fmt.Errorf("%s %q: names with the prefix system: are reserved for Kubernetes", what, name)
	case what == "user" && name == authn.AdminName:
		return fmt.Errorf("user %q is the admin: use the kubeconfig that the server writes", name)
	case strings.TrimSpace(name) != name || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%s %q: a name must be printable, without leading or trailing space", what, name)
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
		stderr = stdout // it must not mix with the kubeconfig
	}
	u.explain(stderr, name, certificate.NotAfter)
	return nil
}

// bySelf signs with the authority in the data directory.
func (u *userAdd) bySelf(_ context.Context, name string, now time.Time) (_ *pki.Client, server string, err error) {
	dir, kubeconfig := u.dataDir, filepath.Join(u.dataDir, "kubeconfig")
	if dir == "" {
		if dir, kubeconfig, err = u.ofInstance(); err != nil {
			return nil, "", err
		}
	}
	if err := checkDirectory("data directory", dir); err != nil {
		return nil, "", err
	}
	authority, err := pki.ReadAuthority(filepath.Join(dir, "pki"), now)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("%w: set --kubeconfig, or use the data directory of a kapok up that ran without --in-memory and without --store", err)
	}
	if err != nil {
		return nil, "", err
	}
	if u.server == "" {
		if server, err = serverOf(kubeconfig); err != nil {
			return nil, "", err
		}
	}
	certificate, err := authority.Client(name, u.groups, u.expires, now)
	return certificate, server, err
}

// ofInstance returns the directory and the kubeconfig of the instance that is named, or runs, or
// would run.
func (u *userAdd) ofInstance() (dir, kubeconfig string, err error) {
	i, _, implied, err := chosen(u.instance.name)
	if err == nil && implied && !i.Exists() {
		var runs *instance.Instance
		if runs, err = u.instance.find(); runs != nil {
			i = *runs
		}
	}
	if err == nil && !implied && !i.Exists() {
		err = notRunning(i)
	}
	return i.Dir, i.Kubeconfig(), err
}

// serverOf is the address of the server that has written a kubeconfig.
func serverOf(file string) (string, error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s does not exist: start the server, or set its address with --server https://HOST:PORT", file)
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
		return fmt.Errorf("%s already exists: choose another file", u.output)
	}
	return pki.WriteFile(u.output, kubeconfig)
}

// explain prints the access of the user, and the next step.
func (u *userAdd) explain(w io.Writer, name string, until time.Time) {
	fmt.Fprintf(w, "%s can log in until %s.\n", name, until.UTC().Format("2006-01-02 15:04 MST"))
	if u.allowAdmin {
		return
	}
	if u.component {
		c := componentOf(name)
		fmt.Fprintf(w, "Note that it %s.\n", c.gives)
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
	fmt.Fprintf(w, "Roles grant the user access. To allow changes of most objects in a namespace, as the admin:\n\n")
	fmt.Fprintf(w, "  kubectl create rolebinding NAME --clusterrole edit %s %s --namespace default\n", flag, who)
}
