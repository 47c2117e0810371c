//! Reads a PostgreSQL URL.

use std::str::FromStr as _;

use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;

const HELP: &str = "write postgres://[user[:password]@]host[:port]/database, \
                    with ?sslmode=verify-full for TLS";

/// The parameters that may follow the `?`. The client ignores unknown ones, and a misspelt `sslmode` must not go
/// unnoticed.
const PARAMETERS: [&str; 18] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];

/// Reads a URL: how to connect, and a name of the server for logs. Errors do not repeat the URL, since it may contain
/// a password.
pub(super) fn parse(url: &str) -> Result<(PgConnectOptions, String), String> {
    let is_postgres = url.starts_with("postgres://") || url.starts_with("postgresql://");
    if !is_postgres {
        return Err(HELP.to_owned());
    }
    let query = url.split_once('?').map_or("", |(_, query)| query);
    // Errors name parameters, which must not be parts of a password.
    if query.contains('@') {
        return Err(format!("in a password write %3F for ? and %40 for @; {HELP}"));
    }
    let query = query.split_once('#').map_or(query, |(query, _)| query);
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let name = parameter.split_once('=').map_or(parameter, |(name, _)| name);
        if !PARAMETERS.contains(&name) && !name.starts_with("options[") {
            let known = PARAMETERS.join(", ");
            return Err(format!(
                "`{name}` is not a parameter of a PostgreSQL URL; the parameters are {known}"
            ));
        }
    }
    let options = PgConnectOptions::from_str(url).map_err(|error| format!("{error}; {HELP}"))?;
    let options = match options.get_application_name() {
        Some(_) => options,
        None => options.application_name("tollgate"),
    };
    let server = name(&options);
    Ok((options.disable_statement_logging(), server))
}

fn name(options: &PgConnectOptions) -> String {
    let host = match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => options.get_host().to_owned(),
    };
    let database = options.get_database().map(|database| format!("/{database}"));
    format!("{host}:{}{}", options.get_port(), database.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: Result<&str, &str>) {
        let found = parse(url);
        match (&found, expected) {
            (Ok((_, server)), Ok(expected)) => assert_eq!(server, expected, "{url}"),
            (Err(problem), Err(expected)) => {
                assert!(problem.contains(expected), "{url}: {problem}");
                assert!(!problem.contains("hunter2"), "{url}: {problem}");
            }
            _ => panic!("{url}: {:?}", found.map(|(_, server)| server)),
        }
    }

    #[test]
    fn urls_say_where_the_database_is() {
        check("postgres://example.org/limits", Ok("example.org:5432/limits"));
        check("postgresql://example.org:6543/limits", Ok("example.org:6543/limits"));
        check("postgres://me:hunter2@example.org/limits", Ok("example.org:5432/limits"));
        check("postgres://[::1]:1/limits?sslmode=require", Ok("[::1]:1/limits"));
        check("postgres://me@example.org", Ok("example.org:5432"));
        check(
            "postgres:///limits?host=/run/pg&user=me&password=hunter2",
            Ok("/run/pg:5432/limits"),
        );
        check("postgres://example.org/limits?options[geqo]=off", Ok("example.org:5432/limits"));
    }

    #[test]
    fn errors_omit_secrets() {
        check("", Err("write postgres://"));
        check("mysql://me:hunter2@example.org/limits", Err("write postgres://"));
        check("example.org", Err("write postgres://"));
        check("postgres://me:hunter2@example.org:x/limits", Err("write postgres://"));
        check("postgres://me:hunter2@example.org:70000/limits", Err("write postgres://"));
        check("postgres://me:hunter2@exa mple.org/limits", Err("write postgres://"));
        check("postgres://example.org/limits?sslmode=yes", Err("sslmode"));
        check("postgres://example.org/limits?port=many&password=hunter2", Err("write postgres://"));
        check(
            "postgres://example.org/limits?ssl_mode=hunter2",
            Err("`ssl_mode` is not a parameter"),
        );
        check("postgres://me:which?hunter2@example.org/limits", Err("write %3F for ?"));
    }
}
