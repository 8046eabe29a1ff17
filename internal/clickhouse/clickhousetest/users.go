package clickhousetest

// Users of the servers that this package starts, beside the default user, who
// has no password and may do everything.
const (
	// SecuredUser needs SecuredPassword.
	SecuredUser     = "secured"
	SecuredPassword = `s3cured "pass'wörd`
	// ReaderUser may not write: its profile has readonly=1. No password.
	ReaderUser = "reader"
	// NarrowUser may SELECT from system tables and nothing else. No password.
	NarrowUser = "narrow"
	// BlindUser may know every table, and SELECT from system tables alone. No
	// password.
	BlindUser = "blind"
	// WriterUser may INSERT and nothing else. No password.
	WriterUser = "writer"
	// AsyncUser has async_insert=1 and wait_for_async_insert=0 in its profile.
	// No password.
	AsyncUser = "async"
)

const usersXML = `<clickhouse>
  <profiles>
    <default/>
    <reader><readonly>1</readonly></reader>
    <async><async_insert>1</async_insert><wait_for_async_insert>0</wait_for_async_insert></async>
  </profiles>
  <quotas><default/></quotas>
  <users>
    <default><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default>
    <secured><password>s3cured "pass'wörd</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></secured>
    <reader><password></password><networks><ip>::/0</ip></networks><profile>reader</profile><quota>default</quota></reader>
    <narrow><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
      <grants><query>GRANT SELECT ON system.*</query></grants></narrow>
    <blind><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
      <grants><query>GRANT SELECT ON system.*</query><query>GRANT SHOW ON *.*</query></grants></blind>
    <writer><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
      <grants><query>GRANT INSERT ON *.*</query></grants></writer>
    <async><password></password><networks><ip>::/0</ip></networks><profile>async</profile><quota>default</quota></async>
  </users>
</clickhouse>
`
