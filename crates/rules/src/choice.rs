//! Values that are one of a few names.

/// Declares an enum that stands in documents by the names of its variants. Names in `later` are
/// refused as not supported yet.
macro_rules! choice {
    (
        $(#[doc = $about:literal])+
        pub enum $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[$default:ident])?
                $variant:ident = $text:literal,
            )+
        }
        later: [$($later:literal),*]
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name {
            $(
                $(#[doc = $doc])+
                $(#[$default])?
                $variant,
            )+
        }

        impl $name {
            /// Every value there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name in documents.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl tollgate_document::Decode for $name {
            fn decode(node: &tollgate_document::Node, scope: &mut tollgate_document::Scope) -> Option<Self> {
                let named = [$(($text, Self::$variant),)+];
                tollgate_document::decode_choice(node, &named, &[$($later),*], scope)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let choices = [$(($text, $crate::record::describe(&[$($doc),+])),)+];
                $crate::choice::schema(&[$($about),+], &choices)
            }
        }
    };
}
pub(crate) use choice;

/// The schema of a choice, with the meaning of each name.
pub(crate) fn schema(about: &[&str], choices: &[(&str, String)]) -> schemars::Schema {
    let names = choices.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let meanings = choices.iter().map(|(name, about)| format!("\n- {name}: {about}"));
    let about = crate::record::describe(about) + &meanings.collect::<String>();
    schemars::json_schema!({ "type": "string", "enum": names, "description": about })
}
