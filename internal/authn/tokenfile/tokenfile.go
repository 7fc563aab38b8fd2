// Package tokenfile authenticates the bearer tokens of a file: kube-apiserver's --token-auth-file.
// A line of the file is
//
//	TOKEN,USER,UID[,"GROUP,GROUP..."]
//
// in the CSV of package encoding/csv. A [Table] may be loaded again while requests are served; it
// starts no goroutine.
package tokenfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/kapok-dev/kapok/internal/authn"
)

// A Table authenticates the tokens of a file. It implements authn.TokenAuthenticator, and is empty
// before Load.
type Table struct {
	bearers atomic.Pointer[bearers]
}

// bearers are users by the hash of their token. The hash prevents timing attacks: the duration of a
// lookup does not depend on a common prefix of tokens.
type bearers map[[sha256.Size]byte]*authn.User

// Load replaces the table by the content of a file. It returns warnings, without tokens, about
// possible mistakes. After an error the table is unchanged.
func (t *Table) Load(data []byte) (warnings []string, err error) {
	b, warnings, err := parse(data)
	if err != nil {
		return nil, err
	}
	t.bearers.Store(&b)
	return warnings, nil
}

// AuthenticateToken implements authn.TokenAuthenticator.
func (t *Table) AuthenticateToken(_ context.Context, token string, wanted []string) (*authn.User, []string, error) {
	b := t.bearers.Load()
	if b == nil {
		return nil, nil, nil
	}
	u := (*b)[sha256.Sum256([]byte(token))]
	if u == nil {
		return nil, nil, nil
	}
	return u, wanted, nil
}

func parse(data []byte) (bearers, []string, error) {
	all, warnings := bearers{}, []string(nil)
	reader := csv.NewReader(bytes.NewReader(data))
	reader.FieldsPerRecord = -1
	for n := 1; ; n++ {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, warnings, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if len(record) < 3 {
			line, _ := reader.FieldPos(0)
			return nil, nil, fmt.Errorf("line %d: must have at least 3 columns (token, user name, user uid), found %d", line, len(record))
		}
		if record[0] == "" {
			warnings = append(warnings, fmt.Sprintf("record %d has no token, and is left out", n))
			continue
		}
		u := &authn.User{Name: record[1], UID: record[2]}
		if len(record) >= 4 {
			u.Groups = strings.Split(record[3], ",")
		}
		u.Groups = authn.WithAuthenticated(u.Groups)
		sum := sha256.Sum256([]byte(record[0]))
		if all[sum] != nil {
			warnings = append(warnings, fmt.Sprintf("record %d has the token of one before, and counts", n))
		}
		all[sum] = u
	}
}
