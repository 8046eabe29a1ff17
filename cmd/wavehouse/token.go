package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/auth"
	"github.com/wavehouse/wavehouse/internal/claim"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func newToken(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token --role <role>",
		Short: "Make a token that the server takes, for scripts and trials",
		Long: `Prints a token (HS256) under the secret that the server verifies with: the
one of the tenant in WH_AUTH_JWT_SECRETS_FILE, or WH_AUTH_JWT_SECRET (or _FILE).
Where a settings directory is named, the claims that the tenant asks for are put in
under their names: the role, the subject, the tenant, the audience, the issuer.`,
		Example: `  wavehouse token --role viewer --claim org=a --ttl 1h
  wavehouse token --role writer --sub ann --tenant acme --dir ./settings
  wavehouse token --role viewer --claim app.org=a --claim 'teams:=["x","y"]'`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	role := flags.String("role", "", "the caller's role")
	subject := flags.String("sub", "", "what tells callers of one role apart")
	claims := flags.StringArray("claim", nil, "a claim: path=text, or path:=JSON; repeat it for more")
	ttl := flags.Duration("ttl", time.Hour, "for how long the token is good")
	only := flags.String("tenant", string(tenant.Default), "the tenant that the token is for")
	dir := flags.String("dir", "", "the settings directory (WH_SETTINGS_DIR when left out; without any, the default names of claims)")
	cmd.RunE = func(*cobra.Command, []string) error {
		id, err := tenant.Parse(*only)
		switch {
		case err != nil:
			return &usageError{fmt.Errorf("--tenant: %w", err)}
		case *ttl <= 0:
			return &usageError{fmt.Errorf("--ttl %s: want more than nothing", *ttl)}
		}
		rules, err := authOf(t, *dir, id)
		if err != nil {
			return err
		}
		made, err := tokenClaims(rules, id, *role, *subject, *claims)
		if err != nil {
			return err
		}
		now := time.Now()
		made["iat"], made["exp"] = now.Unix(), now.Add(*ttl).Unix()
		secret, err := tokenSecret(t, id)
		if err != nil {
			return err
		}
		text, err := auth.Sign(made, secret)
		if err != nil {
			return err
		}
		t.printf("%s\n", text)
		return nil
	}
	return cmd
}

// authOf is what the tenant's settings say of tokens.
func authOf(t *terminal, dir string, id tenant.ID) (settings.Auth, error) {
	if dir == "" {
		dir = lookup(t.env, "WH_SETTINGS_DIR")
	}
	if dir == "" {
		return settings.DefaultConfig().Auth, nil
	}
	_, snapshot, err := policyFlags{dir: &dir, tenant: (*string)(&id)}.snapshot(t)
	if err != nil {
		return settings.Auth{}, err
	}
	rules := snapshot.Config.Auth
	if rules.JWKSURL != "" {
		return rules, fmt.Errorf("tenant %s takes the tokens of %s alone (auth.jwks_url): ask whoever makes those", id, rules.JWKSURL)
	}
	return rules, nil
}

// tokenClaims are the claims that were asked for, under the names that the settings
// give them.
func tokenClaims(rules settings.Auth, id tenant.ID, role, subject string, more []string) (map[string]any, error) {
	claims := map[string]any{}
	set := func(path claim.Path, value string) error {
		if path == "" || value == "" {
			return nil
		}
		return path.Put(claims, value)
	}
	err := errors.Join(set(rules.RoleClaim, role), set(rules.SubjectClaim, subject), set(rules.TenantClaim, id.String()),
		set("aud", rules.Audience), set("iss", rules.Issuer))
	if err != nil {
		return nil, err
	}
	for _, given := range more {
		name, text, ok := strings.Cut(given, "=")
		if !ok {
			return nil, &usageError{fmt.Errorf("--claim %q: want path=text, or path:=JSON", given)}
		}
		var value any = text
		if bare, isJSON := strings.CutSuffix(name, ":"); isJSON {
			name = bare
			decoder := json.NewDecoder(strings.NewReader(text))
			decoder.UseNumber()
			if err := decoder.Decode(&value); err != nil || decoder.More() {
				return nil, &usageError{fmt.Errorf("--claim %q: what follows := is no JSON", given)}
			}
		}
		path, err := claim.Parse(name)
		if err == nil {
			err = path.Put(claims, value)
		}
		if err != nil {
			return nil, &usageError{fmt.Errorf("--claim %q: %w", given, err)}
		}
	}
	return claims, nil
}

// tokenSecret is what the tenant's tokens are verified with.
func tokenSecret(t *terminal, id tenant.ID) (string, error) {
	if file := lookup(t.env, "WH_AUTH_JWT_SECRETS_FILE"); file != "" {
		own, err := settings.Secrets("auth.jwt_secrets_file", file)
		if err != nil {
			return "", err
		}
		if secret, ok := own[id]; ok {
			return secret.Reveal(), nil
		}
	}
	boot, _, err := config.Read(t.env, nil)
	if err != nil {
		return "", err
	}
	if secret := boot.Auth.JWTSecret.Reveal(); secret != "" {
		return secret, nil
	}
	return "", &usageError{errors.New("name the server's secret: WH_AUTH_JWT_SECRET, WH_AUTH_JWT_SECRET_FILE or WH_AUTH_JWT_SECRETS_FILE")}
}
