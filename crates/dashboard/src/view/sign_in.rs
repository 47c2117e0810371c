//! The page where a token is entered.

use maud::{Markup, html};

use crate::frame::{brand, document};
use crate::model::SignIn;
use crate::part::{copyable, t};
use crate::path;

/// The whole page.
pub(crate) fn page(model: &SignIn) -> Markup {
    document(
        "Sign in",
        None,
        &html! {
            main.sign-in #main {
                h1.brand { (brand()) }
                @if let Some(problem) = &model.problem {
                    div.notice.bad role="alert" { (t(problem)) }
                }
                form.card method="post" action=(path::SIGN_IN) {
                    input type="hidden" name="csrf" value=(model.csrf);
                    input type="hidden" name="next" value=(model.next);
                    label {
                        span { "Token" }
                        input type="password" name="token" required autofocus autocomplete="current-password"
                            spellcheck="false" aria-describedby="about-token";
                    }
                    p.dim #about-token {
                        "A token of this server: what it may do in the API, it may do here. The session ends with the token."
                    }
                    button.primary type="submit" { "Sign in" }
                }
                @if let Some(command) = &model.command {
                    details {
                        summary { "No token yet?" }
                        p.dim { "Where the server runs, this makes one:" }
                        (copyable("make-token", command, "The command that makes a token"))
                    }
                }
                p.dim.small { "Tollgate " (t(&model.version)) }
            }
        },
    )
}
