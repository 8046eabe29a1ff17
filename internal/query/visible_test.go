package query_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
)

func TestATableAsACallerSeesIt(t *testing.T) {
	see := func(rule policy.SelectDocument, claims map[string]any) (*query.Source, error) {
		return query.Visible("d`b", pages(), grantOf(t, rule).Bind(claims, pages().Record), "s0")
	}
	got, err := see(policy.SelectDocument{AllowColumns: []string{"n", "page"}, Filter: json.RawMessage(`{"org":{"_eq":"{{ jwt.org }}"},"n":{"_in":[1,2]}}`)}, map[string]any{"org": `x' OR '1'='1`})
	require.NoError(t, err)
	assert.Equal(t, "SELECT wh.`page` AS `page`, wh.`n` AS `n` FROM `d\\`b`.`pages` AS wh PREWHERE ((wh.`n` IN (SELECT v FROM s0_in0)) AND (wh.`org` = {s0_p0:String}))", got.SQL)
	assert.Equal(t, map[string]string{"s0_p0": `x' OR '1'='1`}, got.Params, "a value is no part of the text")
	require.Len(t, got.External, 1)
	assert.Equal(t, "s0_in0", got.External[0].Name)

	got, err = see(policy.SelectDocument{AllowColumns: []string{"n"}}, nil)
	require.NoError(t, err)
	assert.Equal(t, "SELECT wh.`n` AS `n` FROM `d\\`b`.`pages` AS wh PREWHERE 1", got.SQL)
	got, err = see(policy.SelectDocument{Filter: json.RawMessage(`{"org":{"_eq":"{{ jwt.org }}"}}`)}, nil)
	require.NoError(t, err)
	assert.Contains(t, got.SQL, " PREWHERE 0", "a claim that is missing shows no row")

	for name, rule := range map[string]policy.SelectDocument{
		"no column": {AllowColumns: []string{"nowhere"}}, "a rule that does not fit": {Filter: json.RawMessage(`{"nowhere":{"_eq":1}}`)},
	} {
		_, err := see(rule, nil)
		var refusal *query.Error
		assert.ErrorAs(t, err, &refusal, name)
	}
}
